"""Which lane a half message is to name, and what may go by a lane when another is busy. No I/O, no threads.

A producer's lanes take turns, so that none waits for Kafka to write the markers of its last transaction. What has a key
that something before it has and that is not readable yet must not overtake it.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import islice

from checkback.producing.direct.entries import LaneHalf, OrderKey

_MOST_TOGETHER = 200
"""Transactions in one of Kafka's. At 3,000 a second there are about 10."""
_MOST_BYTES = 1 << 20
_LOOKED_AT = 1_000
"""Of those that wait for a slot; more are looked at when what keeps these back has landed."""


class KeyOrder:
    """Of ``slots`` lanes that a producer has at a time."""

    def __init__(self, slots: int) -> None:
        self._slots_of: dict[OrderKey, list[int]] = {}
        """Of each key in use: a slot, and how many half messages have the key."""
        self._queues = [deque[LaneHalf]() for _ in range(slots)]
        self._flying: list[list[LaneHalf]] = [[] for _ in range(slots)]
        self._lines: dict[OrderKey, deque[LaneHalf]] = defaultdict(deque)
        """Of each key: what waits or is under way, in the order of the commits."""
        self._turn = 0

    def slot(self, keys: frozenset[OrderKey], fit: Sequence[int]) -> int:
        """For a half message with these keys: the one of the last with one of its keys, or the next; one of ``fit``."""
        for key in keys:
            known = self._slots_of.get(key)
            if known is not None and known[0] in fit:
                return known[0]
        self._turn += 1
        return fit[self._turn % len(fit)]

    def add(self, entry: LaneHalf) -> None:
        """It may be delivered from now on."""
        for key in entry.keys:
            known = self._slots_of.setdefault(key, [entry.slot, 0])
            known[0] = entry.slot
            known[1] += 1

    def discard(self, entry: LaneHalf) -> None:
        """One that was added is done with."""
        for key in entry.keys:
            known = self._slots_of[key]
            known[1] -= 1
            if not known[1]:
                del self._slots_of[key]

    def wait(self, entry: LaneHalf) -> bool:
        """It is committed; says whether it may go at once, as far as others are concerned."""
        self._queues[entry.slot].append(entry)
        for key in entry.keys:
            self._lines[key].append(entry)
        return all(self._lines[key][0].slot == entry.slot for key in entry.keys)

    def waits(self) -> bool:
        """Whether anything does."""
        return any(self._queues)

    def take(self, slot: int) -> list[LaneHalf]:
        """Take what may go now by this slot's lane in one transaction, in the order of the commits.

        What it took before must have :meth:`landed`.
        """
        queue = self._queues[slot]
        taken: list[LaneHalf] = []
        left: list[LaneHalf] = []
        ahead: dict[OrderKey, int] = {}
        size = 0
        for entry in islice(queue, _LOOKED_AT):
            if any(self._lines[key][ahead.get(key, 0)] is not entry for key in entry.keys):
                left.append(entry)
                continue
            size += entry.size
            if taken and size > _MOST_BYTES:
                break
            taken.append(entry)
            for key in entry.keys:
                ahead[key] = ahead.get(key, 0) + 1
            if len(taken) == _MOST_TOGETHER:
                break
        if taken:
            for _ in range(len(taken) + len(left)):
                queue.popleft()
            queue.extendleft(reversed(left))
            self._flying[slot] = taken
        return taken

    def landed(self, slot: int) -> bool:
        """Nothing is under way by this slot's lane any more; says whether that may let something else go."""
        landed, self._flying[slot] = self._flying[slot], []
        return self._leave_lines(landed)

    def clear(self, slot: int) -> list[LaneHalf]:
        """Take all that waits for this slot, which goes by none of its lanes."""
        cleared = list(self._queues[slot])
        self._queues[slot].clear()
        self._leave_lines(cleared)
        return cleared

    def _leave_lines(self, entries: Sequence[LaneHalf]) -> bool:
        for entry in entries:
            for key in entry.keys:
                line = self._lines[key]
                line.remove(entry)
                if not line:
                    del self._lines[key]
        return any(entry.keys for entry in entries) and self.waits()
