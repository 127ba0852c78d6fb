"""Reads checks again that wait in ``cb.check``, as soon as somebody can be asked: on the intake's thread."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.wire.checks import CheckRequest
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import GROUP, HALF, ID, TOPIC
from checkers.behind import Reading, Route
from checkers.check import Check

_LOGGER = logging.getLogger(__name__)
_POLL_MS = 50
_A_SECOND = 6_000
"""Checks that are asked again: all of a group that comes back at once would make batches long for everybody."""
_AT_ONCE = 1_000
_AT_LEAST = 100  # for fewer it is not worth reading
_LOOK_MS = 1_000
"""So often it is asked who can be asked again, while nobody can."""

Rooms = Mapping[Route, int]
"""How many more checks of a route would be asked now."""
Wanted = dict[TopicPartition, set[Route]]
"""What is to be read."""


class CheckOrigin(NamedTuple):
    """Where a check was read, and whom it is for."""

    place: TopicPartition
    offset: int
    route: Route
    transaction: str = ""
    """Names it: by its id, and where its half message lies."""
    time_ms: int = 0
    """When Kafka got it."""
    kept: bool = False
    """What is told of it is not its end: it is asked again when somebody is there."""


def origin_of(place: TopicPartition, record: Any) -> CheckOrigin:
    """Of a record of ``cb.check``; the route is empty if its headers name none."""
    ours = own_headers(record.headers)
    transaction = b" ".join((ours.get(HALF, b""), ours.get(ID, b""))).decode(errors="replace")
    route = Route(*(ours.get(name, b"").decode(errors="replace") for name in (GROUP, TOPIC)))
    return CheckOrigin(place, record.offset, route, transaction, record.timestamp)


def check_of(record: Any, origin: CheckOrigin) -> Check | None:
    """The check that a record of ``cb.check`` is; None for one that nobody can read."""
    try:
        return Check(CheckRequest.from_record(record.value, record.headers), origin)
    except ProtocolError as error:
        _LOGGER.warning("Skipped a record of %s: %s", origin.place.topic, error)
        return None


class Rereader:
    """``rooms`` says, sooner or later, how many checks of which route would be asked; ``ask`` takes them.

    ``consumer`` belongs to no consumer group. A check is good for ``good_for_ms``, by Kafka's clock: after that the job
    has written another; and for ``kept_for_ms``, if it was answered *unreachable*. ``clock_ms`` is any clock that does
    not run backwards.
    """

    def __init__(
        self,
        consumer: Any,
        rooms: Callable[[list[Route]], "Future[Rooms]"],
        ask: Callable[[list[Check]], "Future[None]"],
        clock_ms: Callable[[], int],
        good_for_ms: int,
        kept_for_ms: int,
    ) -> None:
        self._consumer = consumer
        self._rooms = rooms
        self._ask = ask
        self._clock_ms = clock_ms
        self._good_for_ms = good_for_ms
        self._kept_for_ms = kept_for_ms
        self._assigned: set[TopicPartition] = set()
        self.busy = False
        """Whether there is more to read at once."""
        self._asked: Future[Rooms] | None = None
        self._handed: Future[None] | None = None
        self._look_ms = 0
        self._left = float(_AT_ONCE)
        self._left_at_ms = clock_ms()

    def step(self, readings: Mapping[TopicPartition, Reading]) -> None:
        """Read some, if there are any and somebody can be asked. Waits for Kafka for a moment, and for nobody else.

        Raises:
            KafkaError: Kafka does not answer; the next step continues.
        """
        if self._handed is not None:
            if not self._handed.done():
                return
            self._handed.result()  # raises what was wrong with it
            self._handed = None
        self._earn()
        if self._left < _AT_LEAST:
            self.busy = False  # until some more may be asked; new checks are waited for meanwhile
            return
        rooms = self._known_rooms(readings)
        if rooms is None:
            return
        wanted = _wanted(readings, rooms)
        self.busy = bool(wanted)
        if not wanted:
            self._look_ms = self._clock_ms() + _LOOK_MS
            return
        checks = self._read(readings, wanted, dict(rooms))
        if checks:
            self._handed = self._ask(checks)

    def _earn(self) -> None:
        now_ms = self._clock_ms()
        self._left = min(self._left + (now_ms - self._left_at_ms) * _A_SECOND / 1000, _AT_ONCE)
        self._left_at_ms = now_ms

    def _known_rooms(self, readings: Mapping[TopicPartition, Reading]) -> Rooms | None:
        if self._asked is None:
            if self._clock_ms() < self._look_ms:
                return None
            for reading in readings.values():
                reading.forget_kept(self._kept_for_ms)
            routes = {route for reading in readings.values() for route in reading.waiting()}
            self.busy = self.busy and bool(routes)
            if routes:
                self._asked = self._rooms(sorted(routes))
            return None
        if not self._asked.done():
            return None
        rooms, self._asked = self._asked.result(), None
        return rooms

    def _read(self, readings: Mapping[TopicPartition, Reading], wanted: Wanted, rooms: dict[Route, int]) -> list[Check]:
        self._go_to({place: min(map(readings[place].first, routes)) for place, routes in wanted.items()})
        # no more than may be asked: what is left over would be fetched and decoded once more
        polled = poll(self._consumer, _POLL_MS, max_records=int(self._left))
        # all of them first: Kafka may not answer, and what is taken below has to be asked
        ends = {place: min(self._consumer.position(place), readings[place].window.next) for place in wanted}
        checks = []
        for place, routes in wanted.items():
            reading, end = readings[place], ends[place]
            for record in polled.get(place, []):
                origin = origin_of(place, record)
                route = origin.route
                if record.offset >= end or route not in routes or record.offset < reading.first(route):
                    continue
                if not rooms[route] or self._left < 1:
                    routes.remove(route)
                elif check := self._taken(record, reading, origin):
                    rooms[route] -= 1
                    self._left -= 1
                    checks.append(check)
            for route in routes:
                reading.read_to(end, route)
        return checks

    def _go_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Where it is already, what was fetched ahead is kept."""
        again = self._assigned != offsets.keys()
        if again:
            self._consumer.assign(sorted(offsets))
            self._assigned = set(offsets)
        for place, offset in offsets.items():
            if again or self._consumer.position(place) != offset:
                self._consumer.seek(place, offset)

    def _taken(self, record: Any, reading: Reading, origin: CheckOrigin) -> Check | None:
        """The record's check, if it is to be asked: then it is under way."""
        if record.timestamp < reading.newest_ms - self._good_for_ms:
            return None
        if not reading.take(record.offset, origin.route, origin.transaction, origin.time_ms):
            return None
        check = check_of(record, origin)
        if check is None:
            reading.finish(origin.route, record.offset)
        else:
            check.answered = reading.answered(record.offset, origin.route)
        return check


def _wanted(readings: Mapping[TopicPartition, Reading], rooms: Rooms) -> Wanted:
    wanted = {
        place: {route for route in reading.waiting() if rooms.get(route, 0)} for place, reading in readings.items()
    }
    return {place: routes for place, routes in wanted.items() if routes}
