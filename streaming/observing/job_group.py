"""How far the job has read, as an ordinary consumer group, so that every tool for Kafka's lag shows it.

For display only: where the job continues is in its checkpoint, and nobody reads these offsets back.
"""

import logging
import time
from collections.abc import Mapping

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import Consumer, KafkaException, TopicPartition
from checkback.wire.job_groups import display_group
from streaming.brokers.client import SinkSettings

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
