"""How far the job has read, and its check services, by the offsets of their consumer groups.

Those of the job are for tools that show Kafka's lag, and to notice logs that have lost their end: where the job
continues is in its checkpoint.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from checkback.kafka.bounded_calls import within
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import is_truncation, result_of
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import (
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    OffsetSpec,
    TopicPartition,
)
from checkback.wire.groups import checkers_group, display_group, metadata_of
from streaming.brokers.client import SinkSettings
from streaming.brokers.retrying import retrying
from streaming.checkpoint.folder import truncated
from streaming.fairness.held_back import PartitionEnds, PartitionId, read_ends

_LOGGER = logging.getLogger(__name__)
_EVERY_SECONDS = 1.0
_ASK_SECONDS = 2.0
_COMPARE_SECONDS = 5.0
_POLL_SECONDS = 0.1
_READ = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
"""Answers after which a log's end is known; what lies before its beginning is for Spark to report."""
_AGAIN_SECONDS = 10.0
_CALL_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
UNKNOWN_EPOCH = -1

Place = tuple[str, int]
"""Topic and partition."""


class JobGroup:
    """Commits how far the job has read, each offset with its leader's epoch; no batch waits for Kafka.

    By these epochs the broker reports a log that has lost its end since, after an unclean election or a power loss
    (KIP-320). Spark compares offsets alone: once such a log has grown again, it would pass over what was written there.

    Args:
        settings: how to reach Kafka.
        query_id: names the checkpoint. Offsets that another checkpoint has committed are not compared.
    """

    def __init__(self, settings: SinkSettings, query_id: str) -> None:
        self._group = display_group(settings.topics)
        options = {"group.id": self._group, "enable.auto.commit": False, "on_commit": self._ended}
        self._consumer: Consumer = make_client(Consumer, settings.client(**options))
        reading = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": "read_uncommitted"}
        self._reading = settings.client(**options, **reading, **{"fetch.message.max.bytes": 1_024})
        self._admin = make_client(AdminClient, settings.client())
        self._query_id = query_id
        self._committed: Mapping[Place, int] = {}
        self._reached: dict[Place, TopicPartition] = {}
        """The last offset of each partition whose leader's epoch is known, with that epoch."""
        self._next = 0.0
        self._failed = False

    def refuse_truncated(self, read_to: Mapping[Place, int]) -> None:
        """Compare what the run before has committed with the logs as they are now.

        Args:
            read_to: what the checkpoint has read, by topic and partition.

        Raises:
            CheckpointMismatchError: a log has lost its end.
        """
        try:
            stored = retrying(_CALL_SECONDS)(committed, self._consumer, [TopicPartition(*place) for place in read_to])
            own = {(at.topic, at.partition): at for at in stored if metadata_of(at) == self._query_id}
            read = {place: at for place, at in own.items() if at.offset <= read_to[place]}
            self._reached = {place: at for place, at in read.items() if _epoch(at) > UNKNOWN_EPOCH}
            self._advance(read_to)
        except KafkaException as error:
            self._warn(error)

    def read_to(self, places: Mapping[Place, int]) -> None:
        """Commit how far the job has read, at most once a second.

        Raises:
            CheckpointMismatchError: a log has lost its end since the last call.
        """
        now = time.monotonic()
        self._consumer.poll(0)  # calls on_commit
        if now < self._next or places == self._committed:
            return
        self._next = now + _EVERY_SECONDS
        try:
            advanced = self._advance(places)
            if advanced:
                self._consumer.commit(offsets=advanced)
        except KafkaException as error:
            self._warn(error)
            with contextlib.suppress(KafkaException):  # else the client may look for leaders of before for minutes
                self._admin.list_topics(timeout=_ASK_SECONDS)
            return
        if len(advanced) == len(places):
            self._committed = dict(places)
        else:  # a broker is away
            self._next += _AGAIN_SECONDS

    def close(self) -> None:
        """Give the connections back."""
        _close(self._consumer)

    def _advance(self, places: Mapping[Place, int]) -> list[TopicPartition]:
        """Compare partitions whose leader has changed; return those of which all is known, with their epochs of now."""
        # only after the records were read: an epoch that is older than theirs would look like a loss
        epochs = self._epochs(places)
        known = {place: _epoch(self._reached[place]) for place in epochs if place in self._reached}
        changed = {place for place, epoch in known.items() if epochs[place] > epoch}
        left_out = changed - self._compared([self._reached[place] for place in changed])
        # a lower epoch is the answer of a leader that does not know yet that it was replaced
        left_out |= {place for place, epoch in known.items() if epochs[place] < epoch}
        advanced = {
            place: TopicPartition(*place, places[place], self._query_id, epoch)
            for place, epoch in epochs.items()
            if place not in left_out
        }
        self._reached |= advanced
        return list(advanced.values())

    def _epochs(self, places: Mapping[Place, int]) -> dict[Place, int]:
        """Epochs of the leaders that have all that was read, and say so in time."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # as it is
        answers = self._admin.list_offsets(
            {TopicPartition(*place): latest for place in places}, request_timeout=_ASK_SECONDS
        )
        ends = {(place.topic, place.partition): result_of(answer) for place, answer in answers.items()}
        return {
            place: end.leader_epoch
            for place, end in ends.items()
            if end.leader_epoch is not None and end.offset >= places[place]
        }

    def _compared(self, places: Sequence[TopicPartition]) -> set[Place]:
        """Begin to read there, so that librdkafka asks the leader; return the partitions that have lost nothing."""
        compared: set[Place] = set()
        if not places:
            return compared
        # a client of its own: one that knows the leader's epoch already does not ask
        consumer: Consumer = make_client(Consumer, self._reading)
        consumer.assign(list(places))
        until = time.monotonic() + _COMPARE_SECONDS
        try:
            while len(compared) < len(places) and time.monotonic() < until:
                message = consumer.poll(_POLL_SECONDS)
                if message is None:
                    continue
                place, error = (message.topic() or "", message.partition() or 0), message.error()
                if error is not None and is_truncation(error):
                    raise truncated(f"{place[0]}:{place[1]}")
                if error is None or error.code() in _READ:
                    compared.add(place)
        finally:
            _close(consumer)
        return compared

    def _ended(self, error: object, _places: object) -> None:
        if error is None:
            self._failed = False
        else:
            self._committed = {}
            self._warn(error)

    def _warn(self, error: object) -> None:
        if not self._failed:
            _LOGGER.warning(
                "Group %s was not read or committed: %s. Tools do not show how far the job has read, and a log that "
                "loses its end is not noticed until it is.",
                *(self._group, error),
            )
        self._failed = True


def _epoch(place: TopicPartition) -> int:
    return UNKNOWN_EPOCH if place.leader_epoch is None else place.leader_epoch


def _close(consumer: Consumer) -> None:
    """A commit that no broker answers would hold the close back for as long."""
    with contextlib.suppress(TimeoutError):
        within(_CLOSE_SECONDS, consumer.close)


class CheckersGroup:
    """How far the check services have answered checks.

    ``observe`` gets each partition of the check topic: answered checks end at ``stable``, all of them at ``end``.
    """

    def __init__(self, settings: SinkSettings, observe: Callable[[Mapping[PartitionId, PartitionEnds]], None]) -> None:
        self._settings = settings
        self._observe = observe
        self._consumer: Consumer | None = None

    def look(self, admin: AdminClient) -> None:
        """Read it from Kafka.

        Raises:
            KafkaException: Kafka does not answer, or does not allow the job to read the group's offsets.
        """
        topics = self._settings.topics
        ends = read_ends(admin, [topics.check])
        if self._consumer is None:
            own = {"group.id": checkers_group(topics), "enable.auto.commit": False}
            self._consumer = make_client(Consumer, self._settings.client(**own))
        offsets = committed(self._consumer, [TopicPartition(*place) for place in ends])
        # the last record is the end of the job's transaction, which no service answers
        answered = {
            place: PartitionEnds(max(ends[place].first, at.offset) + 1, ends[place].stable)
            for place, at in zip(ends, offsets, strict=True)
        }
        self._observe(answered)
