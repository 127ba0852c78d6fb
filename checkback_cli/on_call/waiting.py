"""Waits for what becomes of transactions that an operator has decided."""

from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

from checkback.kafka.kafka_python.library import KafkaConsumer, TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.record_ranges import ReadLimits
from checkback.kafka.topic_reading import partitions_of
from checkback.operations.story import Story, story_of
from checkback.operations.story_events import EventKind, event_of
from checkback.operations.story_standing import Stand
from checkback.wire.protocol import Action, HalfPosition, Source, Topics
from checkback_cli.on_call.candidates import Candidate

_POLL_MS = 200
_LIMITS = ReadLimits(50_000, 10.0)
_OUTCOMES = {
    Action.COMMIT: "committed",
    Action.ROLLBACK: "rolled back",
    Action.RESUME: "resumed",
    Action.REDELIVER: "delivered again",
}


class Awaited:
    """What the job writes of some transactions, record by record."""

    def __init__(self, ones: Sequence[Candidate], action: Action) -> None:
        self._action = action
        self._waiting = {one.half: one for one in ones if one.row or one.parked}
        self._parked = {one.half for one in ones if one.parked}
        self.became: dict[HalfPosition, str] = {}
        """In words, by half message."""
        self.refused: dict[HalfPosition, str] = {}
        """Why the job did not take the op."""

    @property
    def waiting(self) -> list[Candidate]:
        """Those of which it has written nothing yet."""
        gone = self.became.keys() | self.refused.keys()
        return [one for half, one in self._waiting.items() if half not in gone]

    def take(self, record: Any, topics: Topics) -> None:
        """Take in a record of ``cb.status``, ``cb.parked`` or ``cb.rejected``."""
        event = event_of(record, topics)
        if event is None or event.half not in self._waiting:
            return
        if event.kind is EventKind.NOT_IN_DOUBT and event.half not in self._parked:
            self.became[event.half] = _OUTCOMES[self._action]
        elif event.kind is EventKind.NOT_PARKED:
            self.became[event.half] = event.action
        elif event.kind is EventKind.PARKED:  # just before it was decided: it has left cb.status, too
            self._parked.add(event.half)
            self.became.pop(event.half, None)
        elif event.kind is EventKind.REFUSED and event.source == Source.OPERATOR:
            self.refused[event.half] = event.reason


class Watch:
    """Follows these three topics from the moment that it is made."""

    def __init__(self, consumer: KafkaConsumer, topics: Topics) -> None:
        self._consumer = consumer
        self._topics = topics
        names = (topics.status, topics.parked, topics.rejected)
        places = [TopicPartition(name, part) for name in names for part in partitions_of(consumer, name)]
        consumer.assign(places)
        for place, end in consumer.end_offsets(places).items():
            consumer.seek(place, end)

    def wait(self, awaited: Awaited, seconds: float) -> None:
        """Until all have left, or for so long."""
        until = monotonic() + seconds
        while awaited.waiting and monotonic() < until:
            for records in poll(self._consumer, _POLL_MS).values():
                for record in records:
                    awaited.take(record, self._topics)


def stories(
    consumer: KafkaConsumer, topics: Topics, ones: Sequence[Candidate], *, delivers: bool, seconds: float = 3.0
) -> list[Story | None]:
    """The story of each, read again for a moment where it should be delivered and is not seen yet.

    Kafka answers a commit before consumers see it.
    """
    found = []
    for one in ones:
        until = monotonic() + seconds
        story = story_of(consumer, topics, one.half, _LIMITS)
        while delivers and story is not None and story.standing.stand is Stand.COMMITTED and monotonic() < until:
            sleep(_POLL_MS / 1000)
            story = story_of(consumer, topics, one.half, _LIMITS)
        found.append(story)
    return found
