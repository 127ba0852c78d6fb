"""Checks that wait in ``cb.check`` until somebody can be asked: which, and where to read on. No Kafka, no clock.

A producer group that nobody answers for has a check for each of its open transactions, once. They are not answered
*unreachable* one by one, again and again: the service remembers from where on they lie there, and commits beside them.
What it has to remember is one offset for each route and partition, whatever the number of checks.
"""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from checkback.consumer.offsets.window import OffsetWindow
from checkback.wire.json_reading import read_sayable

_MOST_OFFSET = 2**63 - 1
_NOTE_BYTES = 3_000
"""Of what is committed beside an offset; brokers take 4,096 (``offset.metadata.max.bytes``)."""


class Route(NamedTuple):
    """Whom a check is for: an endpoint answers for a producer group, and perhaps for some real topics only."""

    group: str
    topic: str


class Backlog:
    """The checks of one route in one partition that wait to be read again."""

    def __init__(self, first: int, done: Iterable[int] = ()) -> None:
        self.next = first
        """Offset from which on to read again."""
        self._done = set(done)
        self._under_way: set[int] = set()

    @property
    def committable(self) -> int:
        """The lowest offset that is not dealt with."""
        return min(self.next, min(self._under_way, default=self.next))

    @property
    def idle(self) -> bool:
        """Whether none is under way."""
        return not self._under_way

    def take(self, offset: int) -> bool:
        """Read on past this check; whether it is to be asked, and under way from now on."""
        self.next = offset + 1
        if offset in self._done or offset in self._under_way:
            self._done.discard(offset)
            return False
        self._under_way.add(offset)
        return True

    def read_to(self, offset: int) -> None:
        """Before this offset there is none left to read."""
        if offset > self.next:
            self.next = offset
            self._done = {done for done in self._done if done >= offset}

    def finish(self, offset: int) -> None:
        """A check is dealt with; perhaps one that is still to be read again."""
        self._under_way.discard(offset)
        if offset >= self.next:
            self._done.add(offset)

    def postpone(self, offset: int) -> None:
        """A check that was to be asked waits after all."""
        self._under_way.discard(offset)
        self._done.discard(offset)
        self.next = min(self.next, offset)


class Reading:
    """How far a partition of ``cb.check`` has been read, and what of it waits."""

    def __init__(self, first: int, note: str = "") -> None:
        """Begin, or continue after what was committed: see :meth:`committed`."""
        self.window = OffsetWindow(first)
        self.newest_ms = 0
        """Kafka's time of the newest record that was read."""
        self.backlogs = {route: Backlog(offset) for route, offset in _said(note)}

    def waits(self, route: Route) -> bool:
        """Whether a check just read is not to be asked yet: others of its route wait before it."""
        backlog = self.backlogs.get(route)
        return backlog is not None and backlog.next < self.window.next

    def waiting(self) -> Iterator[Route]:
        """Routes of which some are to be read again."""
        return (route for route, backlog in self.backlogs.items() if backlog.next < self.window.next)

    def begin(self, offset: int, route: Route) -> bool:
        """A record was read, perhaps again, after partitions were shared out; whether its check is to be asked now."""
        waits = self.waits(route)
        backlog = self.backlogs.get(route)
        self.window.taken(offset)
        if backlog is None:
            return True
        if not waits:
            backlog.read_to(offset + 1)
        elif offset >= backlog.next:  # else it was taken before, and is under way
            self.window.done(offset)
        return not waits

    def finish(self, route: Route, offset: int) -> None:
        """A check is dealt with."""
        self.window.done(offset)
        backlog = self.backlogs.get(route)
        if backlog is not None:
            backlog.finish(offset)
            self.forget(route)

    def postpone(self, route: Route, offset: int) -> bool:
        """Nobody can be asked about a check now; whether it is the first of its route that waits."""
        backlog = self.backlogs.get(route)
        first = backlog is None
        if backlog is None:
            backlog = self.backlogs[route] = Backlog(offset, self.window.done_behind(offset))
        backlog.postpone(offset)
        self.window.done(offset)
        return first

    def forget(self, route: Route) -> None:
        """Forget a route, if none of it waits and none is under way."""
        backlog = self.backlogs[route]
        if backlog.idle and backlog.next >= self.window.next:
            del self.backlogs[route]

    def committed(self) -> tuple[int, str]:
        """What to commit: an offset, and a note of what waits before it.

        Of more routes than a note has room for, those that wait from furthest back are in it; the offset is not behind
        the others, which are then read again from there, and asked twice perhaps.
        """
        offset, said = self.window.position, 2
        noted = []
        for route, backlog in sorted(self.backlogs.items(), key=lambda pair: (pair[1].committable, pair[0])):
            entry = json.dumps([*route, backlog.committable], separators=(",", ":"))
            said += len(entry) + 1
            if said > _NOTE_BYTES:
                offset = min(offset, backlog.committable)
                break
            noted.append(entry)
        return offset, f"[{','.join(noted)}]" if noted else ""


def _said(note: str) -> Iterator[tuple[Route, int]]:
    """A note's routes and offsets; none of one that nobody of ours has written."""
    try:
        for group, topic, offset in read_sayable(note or "[]"):
            if type(offset) is not int or not 0 <= offset <= _MOST_OFFSET:
                return
            yield Route(str(group), str(topic)), offset
    except (ValueError, TypeError):
        return
