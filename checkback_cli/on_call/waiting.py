"""Waits for what becomes of transactions that an operator has decided."""

from collections.abc import Callable, Container, Sequence
from time import monotonic, sleep
from typing import Any

from checkback.kafka.kafka_python.library import KafkaConsumer, TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.record_ranges import ReadLimits
from checkback.kafka.topic_reading import Ends, partitions_of
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
        self._waiting = {one.half: one for one in ones}
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

    @property
    def unlisted(self) -> set[int]:
        """Half partitions of those that are in no list: the job writes nothing when it accepts their ops."""
        return {one.half.partition for one in self._unlisted()}

    def judged(self, partitions: Container[int]) -> None:
        """The job has judged the ops of these half partitions: those that it has not refused are done."""
        for one in self._unlisted():
            if one.half.partition in partitions:
                self.became[one.half] = _OUTCOMES[self._action]

    def _unlisted(self) -> list[Candidate]:
        return [one for one in self.waiting if not (one.row or one.half in self._parked)]

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

    def wait(self, awaited: Awaited, seconds: float, ends: Ends, read_to: Callable[[Ends], Ends]) -> None:
        """Until the job has judged all, or for so long.

        ``ends``: offsets behind the ops that were written; ``read_to``: how far the job has read these partitions.
        """
        until = monotonic() + seconds
        while awaited.waiting and monotonic() < until:
            reached = read_to(ends) if awaited.unlisted else {}
            self._take(awaited)
            judged = {place.partition for place, end in ends.items() if reached.get(place, -1) >= end}
            if judged & awaited.unlisted:  # what the job has refused of them is in Kafka by now
                last = self._consumer.end_offsets(list(self._consumer.assignment()))
                while any(self._consumer.position(place) < end for place, end in last.items()):
                    self._take(awaited)
                awaited.judged(judged)

    def _take(self, awaited: Awaited) -> None:
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
