"""How far the half partitions go, as a batch sees them: asked when it is begun, and the same when it is run again.

An op is written after its half message has its place. So when the ends are asked after the batch's ops have been
counted off, no honest op names a place behind them; without this rule each one that does costs a segment's state.

The plan is told, which rejects such ops as columns, before there are segments of them (``ends_in_plan.py``), and by a
local property the state function.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyspark import SparkContext, TaskContext

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import NOT_ALLOWED, result_of
from checkback.kafka.librdkafka.library import AdminClient, KafkaError, KafkaException, OffsetSpec, TopicPartition
from checkback.wire.protocol import Topics
from state import ANYWHERE, Reach
from streaming.batch.numbered_files import NumberedFiles
from streaming.brokers.retrying import retrying
from streaming.checkpoint.ends_in_plan import EndsInPlan
from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.offset_log import Entry

PROPERTY = "checkback.halfLogs"
"""A local property of Spark's, by which tasks get it: ``batch partition:read_to:end ...``."""
_FILES = NumberedFiles("checkback-ends-", ".json")
_KEPT = 10
"""So many batches back the ends are kept; Spark runs the newest batch again, or after a power loss one before it."""
_OPENED = 1_000
"""Segments that a state partition opens in a batch for nothing but ops that wait: 4 million offsets ahead."""
_CALL_SECONDS = 5.0
_PATIENT_SECONDS = 120.0


class HalfLogs:
    """Asks for the ends, on the driver."""

    def __init__(
        self, checkpoint: Checkpoint, client: Mapping[str, Any], topics: Topics, in_plan: EndsInPlan | None = None
    ) -> None:
        self._in_plan = in_plan
        self._checkpoint = checkpoint
        self._client = dict(client)
        self._admin = make_client(AdminClient, self._client)
        self._topics = topics
        self._ops: dict[str, int] | None = None
        self._there = set(_FILES.numbers(checkpoint.names("")))

    def tell(self, context: SparkContext, entry: Entry) -> None:
        """Let the batch's tasks know; call it in the thread that runs the batch, before anything of it is evaluated.

        Raises:
            KafkaException: Kafka does not say.
        """
        read, ops = _read_to(entry, self._topics.half), _read_to(entry, self._topics.op)
        ends = self._kept(entry) if ops != self._ops else {}
        self._ops = ops
        partitions = sorted(int(partition) for partition in read.keys() | ends.keys())
        said = [f"{number}:{read.get(str(number), 0)}:{ends.get(str(number), -1)}" for number in partitions]
        context.setLocalProperty(PROPERTY, " ".join([str(entry.number), *said]))
        if self._in_plan is not None:
            # of a log that was cut short meanwhile, what has been read is still in the state
            self._in_plan.tell({int(number): max(end, read.get(number, 0)) for number, end in ends.items()})

    def _kept(self, entry: Entry) -> dict[str, int]:
        """The ends by partition as they were asked for in the batch's first run; only where it has ops at all."""
        name = _FILES.name(entry.number)
        if entry.number in self._there:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # torn
                kept = json.loads(self._checkpoint.read(name) or b"")
                if kept["entry"] == entry.content_hash:  # one that was given up had other ops
                    return {str(partition): int(end) for partition, end in kept["ends"].items()}
            self._checkpoint.remove(name)
        partitions = [int(partition) for partition in _read_to(entry, self._topics.op)]
        ends: dict[str, int] = retrying(_PATIENT_SECONDS)(self._ask_again, partitions)
        self._checkpoint.write(name, json.dumps({"entry": entry.content_hash, "ends": ends}).encode())
        self._there.add(entry.number)
        for number in [number for number in self._there if number <= entry.number - _KEPT]:
            self._checkpoint.remove(_FILES.name(number))
            self._there.remove(number)
        return ends

    def _ask_again(self, partitions: Iterable[int]) -> dict[str, int]:
        """With another client after a failure: one did not find a broker again that had been restarted, for 115 s."""
        try:
            return self._ask(partitions)
        except KafkaException:
            self._admin = make_client(AdminClient, self._client)
            raise

    def _ask(self, partitions: Iterable[int]) -> dict[str, int]:
        topic = self._topics.half
        # a client knows partitions that were added when it has asked for the topic
        described = self._admin.list_topics(topic, timeout=_CALL_SECONDS).topics[topic]
        if described.error is not None:
            raise _passing(described.error)
        ends = {str(partition): 0 for partition in partitions}  # the op topic may have more
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # as it is
        asked = {TopicPartition(topic, number): latest for number in partitions if number in described.partitions}
        for partition, answer in self._admin.list_offsets(asked, request_timeout=_CALL_SECONDS).items():
            try:
                ends[str(partition.partition)] = int(result_of(answer).offset)
            except KafkaException as error:
                raise _passing(error.args[0]) from error
        return ends


def _passing(error: KafkaError) -> KafkaException:
    """An error that is worth another try, unless the job is not allowed to ask: leaders move."""
    if error.code() in NOT_ALLOWED:
        return KafkaException(error)
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, error.str()))


class Openings:
    """What a task knows of it, and how many segments it has opened for nothing but ops."""

    def __init__(self) -> None:
        self._attempt = -1
        self._opened = 0

    def reach(self, batch: int, half_partition: int) -> Reach:
        """How far a half partition goes; nothing is known where nobody has told this batch's tasks."""
        context = TaskContext.get()
        said = context.getLocalProperty(PROPERTY) if context else None
        told = _parsed(said) if said else None
        if context is None or told is None or told[0] != batch:
            return ANYWHERE
        if context.taskAttemptId() != self._attempt:
            self._attempt, self._opened = context.taskAttemptId(), 0
        read_to, end = told[1].get(half_partition, (0, ANYWHERE.end))
        return Reach(read_to, end, self._opened < _OPENED)

    def opened(self) -> None:
        """One more; they come in the order of their offsets, whenever the batch is run."""
        self._opened += 1


@lru_cache(2)
def _parsed(said: str) -> tuple[int, dict[int, tuple[int, int]]]:
    batch, *partitions = said.split(" ")
    found = {}
    for one in partitions:
        partition, read_to, end = (int(number) for number in one.split(":"))
        found[partition] = (read_to, end if end >= 0 else ANYWHERE.end)
    return int(batch), found


def _read_to(entry: Entry, topic: str) -> dict[str, int]:
    """Where the batch ends in each partition of a topic."""
    for source in entry.sources:
        if isinstance(source, dict) and topic in source:
            return {str(partition): int(offset) for partition, offset in source[topic].items()}
    return {}
