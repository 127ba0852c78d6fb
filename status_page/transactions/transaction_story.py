"""What Kafka has of a transaction's story, and of the ops that lost."""

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice

from checkback.exceptions import CheckbackError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.kafka.reaching import no_kafka
from checkback.kafka.record_ranges import ReadLimits
from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.rejected import rejected_records
from checkback.operations.story import story_of
from checkback.operations.story_events import StoryEvent, said
from checkback.wire.protocol import HalfPosition, Source
from conf import Settings
from status_page.transactions.deciding import Rejections
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


def rejected_ops(settings: Settings) -> Rejections:
    """What reads from Kafka why ops of operators were rejected; nothing while Kafka does not answer."""
    kafka = settings.kafka

    def read(since_ms: int) -> dict[tuple[str, str, str], str]:
        with (
            suppress(KafkaError, CheckbackError),
            closing(reading_consumer(kafka.bootstrap_servers, options=kafka.python_client)) as consumer,
        ):
            some = islice(rejected_records(consumer, kafka.topics, since_ms), _LIMITS.records)
            ops = (one for one in some if one.source == Source.OPERATOR)
            return {(one.half, one.transaction_id, one.action): one.reason for one in ops}
        return {}

    return read
