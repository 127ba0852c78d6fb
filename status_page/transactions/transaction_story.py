"""What Kafka has of transactions: their stories, receipts of decisions, and operators' ops that were rejected."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from checkback.exceptions import OperatorError
from checkback.kafka.kafka_python.library import KafkaConsumer, KafkaError, TopicPartition
from checkback.kafka.reaching import no_kafka
from checkback.kafka.record_ranges import RangeReader, ReadLimits
from checkback.kafka.topic_reading import partitions_of, reading_consumer
from checkback.operations.audit import rejected_record
from checkback.operations.story import story_of
from checkback.operations.story_events import StoryEvent, said
from checkback.wire.protocol import Action, HalfPosition, Source
from conf import KafkaSettings, Settings
from status_page.transactions.index import place_in
from status_page.transactions.receipts import Receipt

_LIMITS = ReadLimits(records=100_000, seconds=10.0)
"""Somebody is waiting for the page."""
_RECEIPT_LIMITS = ReadLimits(seconds=3.0)
"""What is left is read with the next request."""
_CLOCKS_MS = 60_000
"""Clocks of brokers differ by less."""


class Told(NamedTuple):
    """One thing that happened to a transaction."""

    time_ms: int
    """When, in ms since 1970."""
    what: str
    """In a few words: ``half message``, ``checked``, ``answered``."""
    detail: str = ""
    """A sentence, without payloads."""
    place: str = ""
    """The record that says so: ``cb.half:3:4711``; empty: none does."""


Story = Callable[[HalfPosition], Iterable[Told]]
"""Reads it from Kafka, which may take seconds.

Raises:
    CheckbackError: Kafka does not answer.
"""


class KafkaStories:
    """A :data:`Story`."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka
        self._readers = threading.BoundedSemaphore(2)

    def __call__(self, half: HalfPosition) -> list[Told]:
        """What happened, by time.

        Raises:
            OperatorError: others are being read.
            KafkaUnreachableError: Kafka does not answer.
        """
        with _few(self._readers), _consumer(self._kafka) as consumer:
            story = story_of(consumer, self._kafka.topics, half, _LIMITS)
        if story is None:
            return []
        return [*map(_told, story.events), *(Told(0, "not looked at", place) for place in story.not_looked_at)]


class KafkaReceipts:
    """Reads receipts from before a restart, and which of their ops the job rejected."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka
        self._one_receipt, self._one_rejected = threading.BoundedSemaphore(1), threading.BoundedSemaphore(1)

    def kept(self, name: str) -> Receipt | None:
        """The receipt with this name, which has the place of its record; None if there is none.

        Raises:
            OperatorError: another one is being read.
            KafkaUnreachableError: Kafka does not answer.
        """
        place = place_in(name.rpartition(":")[0])
        if place is None:
            return None
        partition, offset = TopicPartition(self._kafka.topics.audit, place.partition), place.offset
        with _few(self._one_receipt), _consumer(self._kafka) as consumer:
            if place.partition not in partitions_of(consumer, partition.topic):
                return None
            if offset >= consumer.end_offsets([partition])[partition]:  # a consumer would begin with the whole topic
                return None
            plan = {partition: [(offset, offset + 1)]}
            records = RangeReader(consumer, _RECEIPT_LIMITS).read_stretches(plan, lambda one: one.offset == offset)
        return next((Receipt.from_record(name, record.value, record.timestamp) for record in records), None)

    def read_rejected(self, receipt: Receipt) -> bool:
        """Read on in ``cb.rejected`` for the ops of a receipt; False: it has more, to be read by the next call.

        Raises:
            OperatorError: another one is being read.
            KafkaUnreachableError: Kafka does not answer.
        """
        asked_for, by_lane = receipt.decision.action, receipt.by_lane
        names: dict[tuple[str, str, str], str] = {
            (str(one.half), one.transaction_id, Action.COMMIT if one.half in by_lane else asked_for): one.name
            for one in receipt.decision.chosen
        }
        with _few(self._one_rejected), _consumer(self._kafka) as consumer:
            topic = self._kafka.topics.rejected
            partitions = [TopicPartition(topic, number) for number in partitions_of(consumer, topic)]
            ends = consumer.end_offsets(partitions)
            since_ms = (receipt.filed_ms or receipt.time_ms) - _CLOCKS_MS
            times = {} if receipt.reached else dict.fromkeys(partitions, since_ms)
            found = consumer.offsets_for_times(times)
            begins = receipt.reached or {one.partition: at.offset for one, at in found.items() if at is not None}
            plan = {one: [(at, end)] for one, end in ends.items() if (at := begins.get(one.partition, end)) < end}
            reader = RangeReader(consumer, _RECEIPT_LIMITS)
            records = reader.read_stretches(plan, lambda record: _operators_op(record) in names)
        left = {one.partition: one.start for one in reader.unread}
        receipt.reached = {one.partition: end for one, end in ends.items()} | left
        receipt.rejected |= {names[_operators_op(record)]: rejected_record(record).reason for record in records}
        return not left


@contextmanager
def _consumer(kafka: KafkaSettings) -> Iterator[KafkaConsumer]:
    """One without a group, closed at the end.

    Raises:
        KafkaUnreachableError: Kafka does not answer, then or later.
    """
    try:
        with closing(reading_consumer(kafka.bootstrap_servers, options=kafka.python_client)) as consumer:
            yield consumer
    except KafkaError as error:
        raise no_kafka(kafka.bootstrap_servers, error, "kafka.bootstrap_servers") from error


@contextmanager
def _few(readers: threading.Semaphore) -> Iterator[None]:
    """No more at once than that: each costs the brokers and this process something."""
    if not readers.acquire(blocking=False):
        raise OperatorError("Others are being read. Try again in some seconds.")
    try:
        yield
    finally:
        readers.release()


def _told(event: StoryEvent) -> Told:
    by = f"{event.who}: " if event.who else ""
    return Told(event.time_ms, said(event), f"{by}{event.remark or event.reason}", event.place)


def _operators_op(record: Any) -> tuple[str, str, str]:
    """Half message, transaction id and action of an operator's op; no half message: it is no operator's."""
    op = rejected_record(record)
    return op.half if op.source == Source.OPERATOR else "", op.transaction_id, op.action
