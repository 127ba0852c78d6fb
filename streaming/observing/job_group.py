"""How far the job has read, and its check services, by the offsets of their consumer groups.

Those of the job are for tools that show Kafka's lag, and to notice logs that have lost their end: where the job
continues is in its checkpoint.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import is_truncation
from checkback.kafka.librdkafka.group_offsets import committed
from checkback.kafka.librdkafka.library import (
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    OffsetSpec,
    TopicPartition,
)
from checkback.wire.beside_offsets import metadata_of
from checkback.wire.job_groups import checkers_group, display_group
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.folder import truncated
from streaming.fairness.held_back import PartitionEnds, PartitionId, read_ends

_LOGGER = logging.getLogger(__name__)
_EVERY_SECONDS = 1.0
_ASK_SECONDS = 2.0
_COMPARE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_READ = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})
"""Answers after which a log's end is known; what lies before its beginning is for Spark to report."""
UNKNOWN_EPOCH = -1


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
        reading = {"auto.offset.reset": "error", "enable.partition.eof": True, "fetch.message.max.bytes": 1_024}
        self._reading = settings.client(**options, **reading)
        self._admin = make_client(AdminClient, settings.client())
        self._query_id = query_id
        self._committed: Mapping[tuple[str, int], int] = {}
        self._reached: Sequence[TopicPartition] = ()
        """What was read at the last commit, with the leaders' epochs of then."""
        self._next = 0.0
        self._failed = False

    def refuse_truncated(self, read_to: Mapping[tuple[str, int], int]) -> None:
        """Compare what the run before has committed with the logs as they are now.

        Args:
            read_to: what the checkpoint has read, by topic and partition.

        Raises:
            CheckpointMismatchError: a log has lost its end.
        """
        try:
            stored = committed(self._consumer, [TopicPartition(*place) for place in read_to])
        except KafkaException as error:
            self._warn(error)
            return
        own = [place for place in stored if metadata_of(place) == self._query_id]
        self._compare([place for place in own if place.offset <= read_to[place.topic, place.partition]])

    def read_to(self, places: Mapping[tuple[str, int], int]) -> None:
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
            # asked after the records were read: an epoch that is older than theirs would look like a loss
            epochs = self._epochs(places)
            self._compare([at for at in self._reached if at.leader_epoch != epochs.get((at.topic, at.partition))])
            self._reached = [TopicPartition(*at, end, self._query_id, epochs[at]) for at, end in places.items()]
            self._consumer.commit(offsets=list(self._reached))
        except KafkaException as error:
            self._warn(error)
            with contextlib.suppress(KafkaException):  # else the client may look for leaders of before for minutes
                self._admin.list_topics(timeout=_ASK_SECONDS)
            return
        self._committed = dict(places)

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def _epochs(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # as it is
        asked = self._admin.list_offsets(
            {TopicPartition(*place): latest for place in places}, request_timeout=_ASK_SECONDS
        )
        ends = {(place.topic, place.partition): answer.result() for place, answer in asked.items()}
        return {place: UNKNOWN_EPOCH if end.leader_epoch is None else end.leader_epoch for place, end in ends.items()}

    def _compare(self, places: Sequence[TopicPartition]) -> None:
        """Begin to read there, so that librdkafka asks the leader. What it does not answer in time is left out."""
        open_places = {(place.topic, place.partition) for place in places if (place.leader_epoch or 0) > UNKNOWN_EPOCH}
        if not open_places:
            return
        # a client of its own: one that knows the leader's epoch already does not ask
        consumer: Consumer = make_client(Consumer, self._reading)
        consumer.assign([place for place in places if (place.topic, place.partition) in open_places])
        until = time.monotonic() + _COMPARE_SECONDS
        try:
            while open_places and time.monotonic() < until:
                message = consumer.poll(_POLL_SECONDS)
                if message is None:
                    continue
                place = (message.topic() or "", message.partition() or 0)
                error = message.error()
                if error is not None and is_truncation(error):
                    raise truncated(f"{place[0]}:{place[1]}")
                if error is None or error.code() in _READ:
                    open_places.discard(place)
        finally:
            consumer.close()

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
