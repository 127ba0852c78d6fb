"""Reads a consumer group's dead letters, with kafka-python: the newest, one, or all that are to be resent."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from checkback.consumer.listener import ReceivedMessage
from checkback.consumer.retries.dead_letters import DeadLetter, LetterPlace, Letters, Mark, lies_there, said_by
from checkback.exceptions import OperatorError
from checkback.kafka.kafka_python.library import KafkaConsumer, TopicPartition
from checkback.kafka.record_ranges import Tell, tell_nobody
from checkback.kafka.topic_reading import records_between

_AT_ONCE = 1_000
"""Offsets; so many are read at a time, from the end of a partition back."""
_NEAR = 100
"""Offsets; letters no further from one another are read with what lies between."""


class ListedLetter(NamedTuple):
    """A letter, and whether it was resent."""

    letter: DeadLetter
    mark: Mark | None


class Newest(NamedTuple):
    """Some letters, the newest first, and whether there are more."""

    listed: list[ListedLetter]
    more: bool


class LetterCount(NamedTuple):
    """How many letters wait."""

    letters: int | None
    """None: there are too many offsets to be counted."""
    offsets: int
    """Of the topic; some are marks, and some are Kafka's own. So there are at most so many letters."""
    newest_ms: int | None = None
    """When the newest that waits has died; None: none does, or they were not counted."""

    @property
    def is_none(self) -> bool:
        """Surely none waits."""
        return self.letters == 0


class DeadLetterTopic:
    """The dead letters of one group.

    Args:
        consumer: without a group, ``read_committed`` (:func:`checkback.kafka.topic_reading.reading_consumer`); it is
            assigned what is read.
        topic: where they lie.
        tell: told how far a long reading is.

    Raises:
        OperatorError: there is no such topic.
    """

    def __init__(self, consumer: KafkaConsumer, topic: str, tell: Tell = tell_nobody) -> None:
        self._consumer = consumer
        self._topic = topic
        self._tell = tell
        self.partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
        if not self.partitions:
            raise OperatorError(
                f"Kafka has no topic {topic}: no consumer of that group has ever made it. 'checkback dlq list' names "
                "the groups that have dead letters."
            )

    def newest(self, wanted: Callable[[ListedLetter], bool], most: int | None) -> Newest:
        """The newest letters that are wanted; ``None``: all of them. Reads no further back than it must."""
        found: list[ListedLetter] = []
        more = False
        ends = self._consumer.end_offsets(self.partitions)
        for partition in self.partitions:
            here = 0
            for listed in self._backwards(partition, ends[partition]):
                if not wanted(listed):
                    continue
                if here == most:
                    more = True
                    break
                found.append(listed)
                here += 1
        found.sort(key=lambda one: (one.letter.died_ms, one.letter.place), reverse=True)
        return Newest(found[:most], more or len(found) > len(found[:most]))

    def count(self, most_offsets: int) -> LetterCount:
        """How many letters wait, if there are no more offsets than that."""
        first, ends = (ask(self.partitions) for ask in (self._consumer.beginning_offsets, self._consumer.end_offsets))
        offsets = sum(ends[partition] - first[partition] for partition in self.partitions)
        if offsets > most_offsets:
            return LetterCount(None, offsets)
        waiting = self.newest(lambda one: one.mark is None, None).listed
        return LetterCount(len(waiting), offsets, waiting[0].letter.died_ms if waiting else None)

    def read(self, place: LetterPlace) -> ReceivedMessage:
        """One of them, whole, as it lies there.

        Raises:
            OperatorError: there is none at that place.
        """
        found = self.contents([place]).get(place)
        if found is None:
            raise OperatorError(f"{self._topic} has no record at {place}: 'checkback dlq list' has the places.")
        return found

    def find(self, places: Collection[LetterPlace], topic: str | None = None) -> Letters:
        """The letters at these places; without places all, or those that came from one topic. And all their marks."""
        first = self._consumer.beginning_offsets(self.partitions)
        ends = self._consumer.end_offsets(self.partitions)
        found = Letters()
        for partition in self.partitions:
            offsets = [place.offset for place in places if place.partition == partition.partition]
            start = min(offsets) if offsets else ends[partition] if places else first[partition]
            for said in self._read(partition, start, ends[partition]):
                if isinstance(said, Mark):
                    found.marks[said.letter] = said
                elif said.place in places or (not places and topic in {None, said.topic}):
                    found.letters[said.place] = said
            found.ends[partition.partition] = ends[partition]
        return found

    def read_on(self, found: Letters, ends: Mapping[int, int]) -> None:
        """Add the marks that came since to those that were found, up to these ends."""
        for partition in self.partitions:
            number = partition.partition
            for said in self._read(partition, found.ends[number], ends[number]):
                if isinstance(said, Mark):
                    found.marks[said.letter] = said
            found.ends[number] = max(ends[number], found.ends[number])

    def held_back(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether somebody's open transaction hides what lies before these ends."""
        visible = self._consumer.end_offsets(self.partitions)
        return any(visible[partition] < ends[partition] for partition in self.partitions)

    def contents(self, places: Collection[LetterPlace]) -> dict[LetterPlace, ReceivedMessage]:
        """What lies at these places, whole; those are missing at which there is nothing, or nothing any more."""
        found: dict[LetterPlace, ReceivedMessage] = {}
        ends = self._consumer.end_offsets(self.partitions)
        for first, last in runs(places):
            partition = TopicPartition(self._topic, first.partition)
            if partition not in ends:
                continue
            for record in records_between(
                self._consumer, partition, first.offset, min(last.offset + 1, ends[partition])
            ):
                place = LetterPlace(record.partition, record.offset)
                if place in places:
                    found[place] = lies_there(record)
        return found

    def _backwards(self, partition: TopicPartition, end: int) -> Iterator[ListedLetter]:
        """Letters from the end back. A mark lies behind its letter, so it has been seen before."""
        first = self._consumer.beginning_offsets([partition])[partition]
        marks: dict[LetterPlace, Mark] = {}
        stop = end
        while stop > first:
            start = max(first, stop - _AT_ONCE)
            some = [said_by(lies_there(record)) for record in records_between(self._consumer, partition, start, stop)]
            for said in reversed(some):
                if isinstance(said, Mark):
                    marks.setdefault(said.letter, said)
                else:
                    yield ListedLetter(said, marks.get(said.place))
            self._tell(self._topic, end - start, end - first)
            stop = start

    def _read(self, partition: TopicPartition, start: int, stop: int) -> Iterator[DeadLetter | Mark]:
        for number, record in enumerate(records_between(self._consumer, partition, start, stop)):
            if number % _AT_ONCE == 0:
                self._tell(self._topic, record.offset - start, stop - start)
            yield said_by(lies_there(record))


def runs(places: Collection[LetterPlace]) -> Iterator[tuple[LetterPlace, LetterPlace]]:
    """Places as stretches from a first to a last, of one partition, with no wide gap inside."""
    first = last = None
    for place in sorted(places):
        if first is None or last is None:
            first = place
        elif place.partition != last.partition or place.offset - last.offset > _NEAR:
            yield first, last
            first = place
        last = place
    if first is not None and last is not None:
        yield first, last
