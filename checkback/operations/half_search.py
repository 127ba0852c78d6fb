"""Finds half messages by their transaction id: in what the job keeps for people, then in the half topic itself."""

import re
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.library import KafkaConsumer, TopicPartition
from checkback.kafka.record_ranges import RangeReader, ReadLimits, Tell, tell_nobody
from checkback.kafka.topic_reading import ends_of, own_topic, records_to_end
from checkback.operations.in_doubt import InDoubt, newest, place_of, row_of
from checkback.operations.story_events import EventKind, event_of, half_in, headers_of, held_in
from checkback.wire import protocol
from checkback.wire.protocol import HalfPosition, Topics

_FIRST_WINDOW_MS = 5 * 60_000
_ALL = 1 << 62
_SHORTEST = 4
_MOST_BEGUN = 1_000
"""Of those whose id only begins so: with more of them it is no beginning that names anything."""
_NUMBERED = re.compile(r"#\d+$")


class FoundHalf(NamedTuple):
    """A half message with the id that was looked for."""

    half: HalfPosition
    transaction_id: str
    group: str
    topic: str
    row: InDoubt | None = None
    """What ``cb.status`` has of it, when it was found there."""
    exact: bool = True
    """Whether its id is the one that was looked for; else it begins so."""


class _Name(NamedTuple):
    """An id that is looked for, or its beginning."""

    ids: frozenset[str]
    begins: str
    """Empty: too short for one."""

    @classmethod
    def of(cls, text: str) -> "_Name":
        return cls(frozenset({text, _NUMBERED.sub("", text)}), text if len(text) >= _SHORTEST else "")

    def fits(self, transaction_id: str) -> bool:
        return transaction_id in self.ids or (bool(self.begins) and transaction_id.startswith(self.begins))


class Search(NamedTuple):
    """What a search came to."""

    found: tuple[FoundHalf, ...]
    where: str
    """The topic in which these were found; the others after it have not been looked at."""
    since_ms: int
    """Half messages from then on have been looked at; 0: none has."""


def windows(now_ms: int, since_ms: int) -> Iterator[tuple[int, int]]:
    """Stretches of time from now back to ``since_ms``, each twice as long as the one before."""
    end, length = now_ms, _FIRST_WINDOW_MS
    while end > since_ms:
        start = max(since_ms, end - length)
        yield start, end
        end, length = start, 2 * length


def search(
    consumer: KafkaConsumer,
    topics: Topics,
    transaction_id: str,
    now_ms: int,
    since_ms: int,
    tell: Tell = tell_nobody,
    clock: Callable[[], float] = monotonic,
) -> Search:
    """All half messages with this id in the first place that has one; without any, those whose id begins so.

    ``cb.status`` and ``cb.parked`` are looked at first; then the half topic from its end back to ``since_ms``, in
    stretches of time, each of them whole. An id that consumers got of one message of several (``tx#3``) finds the
    transaction, too.

    ``consumer`` has no group, and is assigned what is read.

    Raises:
        KafkaError: Kafka does not answer.
    """
    name, begun = _Name.of(transaction_id), dict[HalfPosition, FoundHalf]()
    for topic, finds in ((topics.status, _in_status), (topics.parked, _in_parked)):
        found = finds(counted(records_to_end(consumer, topic), topic, tell), topics, name)
        if exact := _exact(found, begun):
            return Search(exact, topic, 0)
    reader = RangeReader(consumer, ReadLimits(_ALL, float("inf")), tell, clock)
    for start_ms, end_ms in windows(now_ms, since_ms):
        halves = _in_window(consumer, reader, topics, name, start_ms, end_ms)
        if exact := _exact(halves, begun):
            return Search(exact, topics.half, start_ms)
    return Search(tuple(begun.values()), topics.half, since_ms)


def _exact(found: Iterable[FoundHalf], begun: dict[HalfPosition, FoundHalf]) -> tuple[FoundHalf, ...]:
    """Those with the id itself; without any, the others are kept in ``begun``."""
    found = list(found)
    for one in found:
        if len(begun) < _MOST_BEGUN:
            begun.setdefault(one.half, one)
    return tuple(one for one in found if one.exact)


def all_in_doubt(consumer: KafkaConsumer, topics: Topics, tell: Tell = tell_nobody) -> dict[HalfPosition, InDoubt]:
    """The transactions that ``cb.status`` lists now, those last checked at the end.

    Raises:
        ConfigurationError: Kafka has no such topic.
    """
    status = own_topic(consumer, topics.status)
    return newest(counted(records_to_end(consumer, status), status, tell), lambda: ends_of(consumer, topics.half))


def counted(records: Iterable[Any], what: str, tell: Tell) -> Iterator[Any]:
    """The records; ``tell`` is told of their number, 1,000 at a time, and does not know how many there will be."""
    for number, record in enumerate(records, start=1):
        yield record
        if number % 1_000 == 0:
            tell(what, number, 0)


def _in_status(records: Iterable[Any], _: Topics, name: _Name) -> list[FoundHalf]:
    found: dict[HalfPosition, FoundHalf] = {}
    for record in records:
        place = place_of(record.key)
        if place is None:
            continue
        found.pop(place, None)
        row = row_of(place, record.value, record.timestamp)
        if row is not None and name.fits(row.transaction_id):
            exact = row.transaction_id in name.ids
            found[place] = FoundHalf(place, row.transaction_id, row.group, row.topic, row, exact)
    return list(found.values())


def _in_parked(records: Iterable[Any], topics: Topics, name: _Name) -> list[FoundHalf]:
    """Those that wait no longer, too: their story is asked for all the same."""
    found: dict[HalfPosition, FoundHalf] = {}
    for record in records:
        event = event_of(record, topics)
        if event is None or event.half is None or event.kind is not EventKind.PARKED:
            continue
        exact = bool(name.ids & {event.transaction_id, _NUMBERED.sub("", event.transaction_id)})
        if exact or name.fits(event.transaction_id):
            origin = _origin(record, topics) or event.half
            found[origin] = FoundHalf(origin, event.transaction_id, event.group, event.topic, exact=exact)
    return list(found.values())


def _origin(record: Any, topics: Topics) -> HalfPosition | None:
    """The first half message of one that could not be delivered."""
    came_from = headers_of(record).get(protocol.FROM) or b""
    topic, _, place = came_from.decode(errors="replace").partition(":")
    return half_in({protocol.HALF: place.encode()}) if topic == topics.half else None


def _in_window(
    consumer: KafkaConsumer, reader: RangeReader, topics: Topics, name: _Name, start_ms: int, end_ms: int
) -> list[FoundHalf]:
    places = [TopicPartition(topics.half, number) for number in reader.partitions(topics.half)]
    if not places:
        return []
    ends = consumer.end_offsets(places)
    starts = consumer.offsets_for_times(dict.fromkeys(places, start_ms))
    stops = consumer.offsets_for_times(dict.fromkeys(places, end_ms))
    first = consumer.beginning_offsets(places)
    plan = {}
    for place in places:
        start = ends[place] if starts[place] is None else max(starts[place].offset, first[place])
        stop = ends[place] if stops[place] is None else stops[place].offset
        if start < stop:
            plan[place] = [(start, stop)]
    wanted, begins = {one.encode() for one in name.ids}, name.begins.encode()

    def fits(record: Any) -> bool:
        found = headers_of(record).get(protocol.ID) or b""
        return found in wanted or (bool(begins) and found.startswith(begins))

    records = reader.read_stretches(plan, fits)
    found: dict[HalfPosition, FoundHalf] = {}
    for record in records:
        event = event_of(record, topics)
        if event is not None and event.half is not None:
            held = held_in(record)
            place = held.origin if held else event.half
            exact = event.transaction_id in name.ids
            found[place] = FoundHalf(place, event.transaction_id, event.group, event.topic, exact=exact)
    return list(found.values())
