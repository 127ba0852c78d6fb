"""Checks that wait in ``cb.check`` until somebody can be asked: which, and where to read on. No Kafka, no clock.

A producer group that nobody answers for has a check for each of its open transactions, once. They are not answered
*unreachable* one by one, again and again: the service remembers from where on they lie there, and commits beside them.
What it has to remember is one offset for each route and partition, whatever the number of checks; and, of those that
were answered *unreachable* so that people see it, each one: see :class:`Kept`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from checkback.consumer.offsets.window import OffsetWindow
from checkback.wire.json_reading import read_sayable

_MOST_OFFSET = 2**63 - 1
_NOTE_BYTES = 3_000
"""Of what is committed beside an offset; brokers take 4,096 (``offset.metadata.max.bytes``)."""
_MOST_KEPT = 10_000
"""Checks of a partition that are remembered one by one; the next is postponed like one that was not answered."""
_KEPT = "kept"
_NONE = range(0)


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
        self.stored = first
        """Kafka has no position of it that is lower: not for whoever begins there after partitions were shared out."""
        self.newest_ms = 0
        """Kafka's time of the newest record that was read."""
        self._begun_ms = 0
        """Likewise, of the first one."""
        self.backlogs = dict[Route, Backlog]()
        self.kept = dict[Route, Kept]()
        self._kept_now = 0
        """So many at most."""
        for route, offset, kept in _said(note):
            if not kept:
                self.backlogs[route] = Backlog(offset)
            elif offset < first:
                self.kept[route] = Kept(range(offset, first))

    def waits(self, route: Route) -> bool:
        """Whether a check just read is not to be asked yet: others of its route wait before it."""
        backlog = self.backlogs.get(route)
        return backlog is not None and backlog.next < self.window.next

    def waiting(self) -> Iterator[Route]:
        """Routes of which some are to be read again."""
        yield from (route for route, backlog in self.backlogs.items() if backlog.next < self.window.next)
        yield from (route for route, kept in self.kept.items() if kept.first is not None and not self.waits(route))

    def first(self, route: Route) -> int:
        """From where on some of a route that waits are to be read again."""
        kept = self.kept[route].first if route in self.kept else None
        backlog = self.backlogs[route].next if route in self.backlogs else self.window.next
        return backlog if kept is None else min(backlog, kept)

    def take(self, offset: int, route: Route, transaction: str, time_ms: int) -> bool:
        """A record was read again; whether it is to be asked: then it is under way."""
        kept, backlog = self.kept.get(route), self.backlogs.get(route)
        waits = backlog is not None and offset >= backlog.next and not self.window.under_way(offset)
        if backlog is not None and waits and backlog.take(offset):
            if kept is not None:
                kept.supersede(transaction)
                self.forget(route)
            return True
        return kept is not None and kept.take(transaction, offset, time_ms)

    def answered(self, offset: int, route: Route) -> bool:
        """Whether a check that is under way has been answered before: that nobody could be asked."""
        return route in self.kept and self.kept[route].under_way(offset)

    def read_to(self, offset: int, route: Route) -> None:
        """Before this offset there is none of a route left to read again."""
        if route in self.kept:
            self.kept[route].read_to(offset)
        if route in self.backlogs:
            self.backlogs[route].read_to(offset)
        self.forget(route)

    def came(self, time_ms: int) -> None:
        """When a record that was read had been written, by Kafka's clock."""
        self.newest_ms = max(self.newest_ms, time_ms)
        self._begun_ms = self._begun_ms or time_ms

    def begin(self, offset: int, route: Route, transaction: str = "") -> bool:
        """A record was read, perhaps again, after partitions were shared out; whether its check is to be asked now.

        ``transaction`` names it.
        """
        if offset < self.window.next:
            return False  # it is under way, waits, or is dealt with
        if route in self.kept:
            self.kept[route].supersede(transaction)
            self.forget(route)
        waits = self.waits(route)
        backlog = self.backlogs.get(route)
        self.window.taken(offset)
        if backlog is None:
            return True
        if waits:
            self.window.done(offset)
        else:
            backlog.read_to(offset + 1)
        return not waits

    def finish(self, route: Route, offset: int) -> None:
        """A check is dealt with."""
        self.window.done(offset)
        kept, backlog = self.kept.get(route), self.backlogs.get(route)
        if not (kept is not None and kept.finish(offset)) and backlog is not None:
            backlog.finish(offset)
        self.forget(route)

    def keep(self, route: Route, offset: int, transaction: str, time_ms: int) -> None:
        """Nobody can be asked about a check now, and that is answered: it is asked all the same when somebody is there.

        ``transaction`` names it, ``time_ms`` says when it was written.
        """
        kept = self.kept.get(route)
        if kept is not None and kept.keep_again(offset):
            return
        if self._kept_now >= _MOST_KEPT:
            self.postpone(route, offset)
            return
        self.finish(route, offset)
        self.kept.setdefault(route, Kept()).keep(transaction, offset, time_ms)
        self._kept_now += 1

    def forget_kept(self, kept_for_ms: int) -> None:
        """Forget those that were kept for so long, by Kafka's clock: the job has written others by then."""
        before_ms = self.newest_ms - kept_for_ms
        for route in list(self.kept):
            self.kept[route].forget_old(before_ms, noted=self._begun_ms < before_ms)
            self.forget(route)
        self._kept_now = sum(map(len, self.kept.values()))

    def postpone(self, route: Route, offset: int) -> bool:
        """Nobody can be asked about a check now; whether it is the first of its route that waits."""
        kept, backlog = self.kept.get(route), self.backlogs.get(route)
        if kept is not None and kept.keep_again(offset):
            return False
        first = backlog is None
        if backlog is None:
            backlog = self.backlogs[route] = Backlog(offset, self.window.done_behind(offset))
        backlog.postpone(offset)
        self.window.done(offset)
        return first

    def forget(self, route: Route) -> None:
        """Forget a route, if none of it waits and none is under way."""
        backlog = self.backlogs.get(route)
        if backlog is not None and backlog.idle and backlog.next >= self.window.next:
            del self.backlogs[route]
        if route in self.kept and not self.kept[route]:
            del self.kept[route]

    def committed(self) -> tuple[int, str]:
        """What to commit: an offset, and a note of what waits before it.

        Of more routes than a note has room for, those that wait from furthest back are in it; the offset is not behind
        the others, which are then read again from there, and asked twice perhaps. Those that were kept come after
        them, as far as there is room, those of most transactions first. What is left out loses no more than time: if
        the service ends, it is asked with the job's next check.
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
        for route, kept in sorted(self.kept.items(), key=lambda pair: (-pair[1].most, pair[0])):
            entry = json.dumps([*route, kept.committable, _KEPT], separators=(",", ":"))
            said += len(entry) + 1
            if said > _NOTE_BYTES:
                break
            noted.append(entry)
        return offset, f"[{','.join(noted)}]" if noted else ""


def _said(note: str) -> Iterator[tuple[Route, int, bool]]:
    """A note's routes and offsets, and whether checks of it were kept; none of one that nobody of ours has written."""
    try:
        for group, topic, offset, *more in read_sayable(note or "[]"):
            if type(offset) is not int or not 0 <= offset <= _MOST_OFFSET or more not in ([], [_KEPT]):
                return
            yield Route(str(group), str(topic)), offset, bool(more)
    except (ValueError, TypeError):
        return


class _Check(NamedTuple):
    transaction: str
    offset: int
    time_ms: int
    """When it was written, by Kafka's clock."""


class Kept:
    """Checks that were answered *unreachable*, and are asked all the same once somebody is there.

    The job asks again by itself, but only after a pause, which grows to minutes. So that a group that comes back is
    asked at once, its checks of that pause are remembered; they lie in ``cb.check`` and are read again from there.

    Of one route in one partition. Of each transaction, the newest check.
    """

    def __init__(self, noted: range = _NONE) -> None:
        """``noted``: offsets among which an earlier service has left some; it has not said which."""
        self._noted = noted
        self._passed: set[str] = set()
        """Transactions that need none of those noted any more."""
        self._waiting: dict[str, _Check] = {}
        self._under_way: dict[int, _Check] = {}

    def __bool__(self) -> bool:
        return bool(self._noted or self._waiting or self._under_way)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way) + len(self._passed)

    @property
    def most(self) -> int:
        """So many transactions it concerns, at most: each of the offsets noted may be one's."""
        return len(self._waiting) + len(self._under_way) + len(self._noted)

    @property
    def first(self) -> int | None:
        """Where to read again from; None: none waits."""
        offsets = [check.offset for check in self._waiting.values()]
        return min([*offsets, self._noted.start] if self._noted else offsets, default=None)

    @property
    def committable(self) -> int | None:
        """The first offset of those that wait or are under way; None: there is none."""
        first = self.first
        return min([*self._under_way, *([] if first is None else [first])], default=None)

    def keep(self, transaction: str, offset: int, time_ms: int) -> None:
        """Nobody could be asked about a check, and that has been answered. ``time_ms``: when it was written."""
        before = self._waiting.get(transaction)
        if before is None or before.offset < offset:
            self._waiting[transaction] = _Check(transaction, offset, time_ms)
        self._pass(transaction)

    def keep_again(self, offset: int) -> bool:
        """Nobody could be asked this time, either; False when it was not under way."""
        check = self._under_way.pop(offset, None)
        if check is not None:
            self.keep(*check)
        return check is not None

    def supersede(self, transaction: str) -> None:
        """The job has written another check of a transaction."""
        self._waiting.pop(transaction, None)
        self._pass(transaction)

    def take(self, transaction: str, offset: int, time_ms: int) -> bool:
        """A record was read again; whether it is to be asked: then it is under way."""
        check = self._waiting.get(transaction)
        if check is not None and check.offset == offset:
            del self._waiting[transaction]
        elif offset not in self._noted or transaction in self._passed:
            return False
        self._pass(transaction)
        self._under_way[offset] = _Check(transaction, offset, time_ms)
        return True

    def under_way(self, offset: int) -> bool:
        """Whether it is being asked."""
        return offset in self._under_way

    def finish(self, offset: int) -> bool:
        """One is dealt with; False when it was not under way."""
        return self._under_way.pop(offset, None) is not None

    def read_to(self, offset: int) -> None:
        """Before this offset there is none left to read."""
        self._waiting = {transaction: check for transaction, check in self._waiting.items() if check.offset >= offset}
        self._noted = range(max(offset, self._noted.start), self._noted.stop)
        self._forget_passed()

    def forget_old(self, time_ms: int, *, noted: bool) -> None:
        """Forget those written before then: the job has written others. ``noted``: those noted as well."""
        self._waiting = {transaction: check for transaction, check in self._waiting.items() if check.time_ms >= time_ms}
        if noted:
            self._noted = _NONE
        self._forget_passed()

    def _pass(self, transaction: str) -> None:
        if self._noted:
            self._passed.add(transaction)

    def _forget_passed(self) -> None:
        if not self._noted:
            self._passed.clear()
