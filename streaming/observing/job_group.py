"""How far the job has read, and its check services, by the offsets of their consumer groups.

Those of the job are for tools that show Kafka's lag: where the job continues is in its checkpoint.
"""

import logging
import time
from collections.abc import Callable, Mapping

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.group_offsets import committed
from checkback.kafka.librdkafka.library import AdminClient, Consumer, KafkaException, TopicPartition
from checkback.wire.job_groups import checkers_group, display_group
from streaming.brokers.client import SinkSettings
from streaming.fairness.held_back import PartitionEnds, PartitionId, read_ends

_LOGGER = logging.getLogger(__name__)
_EVERY_SECONDS = 1.0


class JobGroup:
    """Commits offsets without waiting for Kafka; what fails is said once, and tried again with the next batch."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._consumer: Consumer | None = None
        self._committed: Mapping[tuple[str, int], int] = {}
        self._next = 0.0
        self._failed = False

    def read_to(self, places: Mapping[tuple[str, int], int]) -> None:
        """The job has read so far."""
        now = time.monotonic()
        if self._consumer is None:
            own = {"group.id": display_group(self._settings.topics), "enable.auto.commit": False}
            self._consumer = make_client(Consumer, self._settings.client(**own, on_commit=self._ended))
        self._consumer.poll(0)  # hears how the last commit ended
        if now < self._next or places == self._committed:
            return
        self._next = now + _EVERY_SECONDS
        changed = {place: offset for place, offset in places.items() if self._committed.get(place) != offset}
        try:
            self._consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in changed.items()])
        except KafkaException as error:
            self._say(error)
            return
        self._committed = dict(places)

    def close(self) -> None:
        """Give the connection back."""
        if self._consumer is not None:
            self._consumer.close()

    def _ended(self, error: object, _places: object) -> None:
        if error is None:
            self._failed = False
        else:
            self._committed = {}
            self._say(error)

    def _say(self, error: object) -> None:
        if not self._failed:
            _LOGGER.warning(
                "Group %s, by which tools show how far the job has read, was not committed: %s. Nothing depends on it.",
                *(display_group(self._settings.topics), error),
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
