"""Reads stretches of partitions with kafka-python, within limits, and keeps account of what it has not read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition

from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.topic_reading import partitions_of

_POLL_MS = 200

Stretch = tuple[int, int]
"""Offsets from the first to that after the last."""
Tell = Callable[[str, int, int], None]
"""Told of what is read, how many offsets of it are done, and how many there are."""


def tell_nobody(what: str, done: int, whole: int) -> None:
    """A :data:`Tell` for those who do not care."""


class ReadLimits(NamedTuple):
    """How much may be read."""

    records: int = 200_000
    """Of each partition that is looked at, about."""
    seconds: float = 30.0
    """By one reader, for all that it is asked for."""


USUAL = ReadLimits()


class Unread(NamedTuple):
    """Offsets of a partition that were not looked at."""

    topic: str
    partition: int
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: offsets {self.start} to {self.stop - 1}"


def stretches(starts: Iterable[int], stop: int, most: int) -> list[Stretch]:
    """What to read of a partition that ends at ``stop`` when it is looked for something close behind some ``starts``.

    All from the first of them on, if that is no more than ``most`` offsets. Else as much behind each, and what is left
    over behind the first ones. They are in order, and do not touch.
    """
    begins = sorted({start for start in starts if start < stop})
    if not begins:
        return []
    bounds = [*begins[1:], stop]
    share = most // len(begins)
    lengths = [min(share, bound - begin) for begin, bound in zip(begins, bounds, strict=True)]
    left = most - sum(lengths)
    found: list[Stretch] = []
    for begin, bound, length in zip(begins, bounds, lengths, strict=True):
        more = min(left, bound - begin - length)
        left -= more
        end = begin + length + more
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        elif end > begin:
            found.append((begin, end))
    return found


def between(read: Sequence[Stretch], start: int, stop: int) -> list[Stretch]:
    """What the stretches leave out of a partition from ``start`` to ``stop``."""
    left_out: list[Stretch] = []
    at = start
    for begin, end in read:
        if begin > at:
            left_out.append((at, begin))
        at = end
    return [*left_out, (at, stop)] if at < stop else left_out


class RangeReader:
    """Reads what lies behind some moments, of partitions of one topic at a time.

    ``consumer`` is one without a group (:func:`checkback.kafka.topic_reading.reading_consumer`), which is assigned what
    is read. What was left out is in :attr:`unread`.
    """

    def __init__(
        self,
        consumer: KafkaConsumer,
        limits: ReadLimits = USUAL,
        tell: Tell = tell_nobody,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._consumer = consumer
        self._limits = limits
        self._tell = tell
        self._clock = clock
        self._deadline = clock() + limits.seconds
        self.unread: list[Unread] = []

    def partitions(self, topic: str) -> list[int]:
        """Those of the topic; none where it is not there."""
        return partitions_of(self._consumer, topic)

    def read(
        self, topic: str, partitions: Iterable[int], moments_ms: Iterable[int], wanted: Callable[[Any], bool]
    ) -> list[Any]:
        """The wanted records among those close behind these moments, in the order of each partition.

        Raises:
            KafkaError: Kafka does not say where the partitions begin and end.
        """
        asked = [TopicPartition(topic, number) for number in partitions]
        if not asked:
            return []
        ends = self._consumer.end_offsets(asked)
        begins = self._offsets(asked, moments_ms, ends)
        most = max(1, self._limits.records)
        plan = {one: stretches(begins[one], ends[one], most) for one in asked if begins[one]}
        for one, read in plan.items():
            for start, stop in between(read, min(begins[one]), ends[one]):
                self.unread.append(Unread(topic, one.partition, start, stop))
        return self.read_stretches({one: read for one, read in plan.items() if read}, wanted)

    def read_stretches(
        self, plan: Mapping[TopicPartition, Sequence[Stretch]], wanted: Callable[[Any], bool]
    ) -> list[Any]:
        """The wanted records of these stretches, as long as there is time."""
        if not plan:
            return []
        found: list[Any] = []
        waiting = {partition: list(read) for partition, read in plan.items()}
        what = next(iter(plan)).topic
        whole = sum(stop - start for read in plan.values() for start, stop in read)
        self._consumer.assign(list(plan))
        self._consumer.resume(*plan)
        under_way = {partition: self._begin(partition, waiting) for partition in plan}
        while under_way and self._clock() < self._deadline:
            for partition, records in poll(self._consumer, _POLL_MS).items():
                stop = under_way[partition][1] if partition in under_way else 0
                found += [record for record in records if record.offset < stop and wanted(record)]
            self._advance(under_way, waiting)
            left = self._left(under_way, waiting)
            self._tell(what, whole - sum(stop - start for _, start, stop in left), whole)
        self.unread += [
            Unread(partition.topic, partition.partition, *left) for partition, *left in self._left(under_way, waiting)
        ]
        self._consumer.assign([])
        return found

    def _offsets(
        self, partitions: Sequence[TopicPartition], moments_ms: Iterable[int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[int]]:
        """For each partition the offsets at which it is to be looked at, those at its end left out."""
        starts: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
        first = self._consumer.beginning_offsets(list(partitions))
        for moment in sorted({max(0, moment) for moment in moments_ms}):
            found = self._consumer.offsets_for_times(dict.fromkeys(partitions, moment)) if moment else {}
            for partition in partitions:
                at = found.get(partition)
                offset = first[partition] if not moment else ends[partition] if at is None else at.offset
                if offset < ends[partition]:
                    starts[partition].append(max(offset, first[partition]))
        return starts

    def _begin(self, partition: TopicPartition, waiting: dict[TopicPartition, list[Stretch]]) -> Stretch:
        stretch = waiting[partition].pop(0)
        self._consumer.seek(partition, stretch[0])
        return stretch

    def _advance(self, under_way: dict[TopicPartition, Stretch], waiting: dict[TopicPartition, list[Stretch]]) -> None:
        for partition in list(under_way):
            # an offset may be passed without a record: Kafka's own are not given
            if self._consumer.position(partition) < under_way[partition][1]:
                continue
            if waiting[partition]:
                under_way[partition] = self._begin(partition, waiting)
            else:
                del under_way[partition]
                self._consumer.pause(partition)

    def _left(
        self, under_way: Mapping[TopicPartition, Stretch], waiting: Mapping[TopicPartition, Sequence[Stretch]]
    ) -> list[tuple[TopicPartition, int, int]]:
        begun = [(partition, self._consumer.position(partition), stop) for partition, (_, stop) in under_way.items()]
        return begun + [(partition, start, stop) for partition, read in waiting.items() for start, stop in read]
