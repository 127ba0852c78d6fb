"""Tells a transaction's whole story, from Kafka."""

from collections.abc import Iterator
from contextlib import closing

from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.reaching import no_kafka
from checkback.kafka.record_ranges import ReadLimits
from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.story import story_of
from checkback.operations.story_events import StoryEvent, said
from checkback.wire.protocol import HalfPosition
from conf import Settings
from status_page.transactions.story import Told

_LIMITS = ReadLimits(records=100_000, seconds=10.0)
"""Somebody is waiting for the page."""


class KafkaStories:
    """A :data:`status_page.transactions.story.Story`."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka
        self._topics = settings.kafka.topics

    def __call__(self, half: HalfPosition) -> list[Told]:
        """What happened, by time.

        Raises:
            KafkaUnreachableError: Kafka does not answer.
        """
        servers = self._kafka.bootstrap_servers
        try:
            with closing(reading_consumer(servers, options=self._kafka.python_client)) as consumer:
                story = story_of(consumer, self._topics, half, _LIMITS)
        except KafkaError as error:
            raise no_kafka(servers, error, "kafka.bootstrap_servers") from error
        if story is None:
            return []
        return [*map(_told, story.events), *_left_out(story.not_looked_at)]


def _told(event: StoryEvent) -> Told:
    by = f"{event.who}: " if event.who else ""
    return Told(event.time_ms, said(event), f"{by}{event.remark or event.reason}", event.place)


def _left_out(places: tuple[str, ...]) -> Iterator[Told]:
    for place in places:
        yield Told(0, "not looked at", place)
