"""Which lane a half message is to name, and what may go by a lane when another is busy. No I/O, no threads.

A producer's lanes take turns, so that none waits for Kafka to write the markers of its last transaction. What has a key
that something before it has and that is not readable yet must not overtake it.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from checkback.producing.direct.entries import LaneHalf, OrderKey

_MOST_TOGETHER = 200
"""Transactions in one of Kafka's. At 3,000 a second there are about 10."""
_MOST_BYTES = 1 << 20
_LOOKED_AT = 1_000
"""Of those that wait. The first of all is kept back by nothing but what is under way, so all get their turn."""


class KeyOrder:
    """Of ``slots`` lanes that a producer has at a time."""

    def __init__(self, slots: int) -> None:
        self._slots_of: dict[OrderKey, list[int]] = {}
        """Of each key in use: a slot, and how many half messages have the key."""
        self._flying: list[frozenset[OrderKey]] = [frozenset()] * slots
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

    def landed(self, slot: int) -> bool:
        """Nothing is under way by this slot's lane any more; says whether anything with a key was."""
        were, self._flying[slot] = self._flying[slot], frozenset()
        return bool(were)

    def take(self, queue: deque[LaneHalf], slot: int) -> list[LaneHalf]:
        """Take out of the queue what may go now by this slot's lane in one transaction, in the queue's order."""
        kept_back: set[OrderKey] = set().union(*self._flying)
        taken: list[LaneHalf] = []
        left: list[LaneHalf] = []
        size = 0
        for entry in islice(queue, _LOOKED_AT):
            if entry.slot != slot or not kept_back.isdisjoint(entry.keys):
                left.append(entry)
                kept_back |= entry.keys
                continue
            size += entry.size
            if taken and size > _MOST_BYTES:
                break
            taken.append(entry)
            if len(taken) == _MOST_TOGETHER:
                break
        if taken:
            for _ in range(len(taken) + len(left)):
                queue.popleft()
            queue.extendleft(reversed(left))
            self._flying[slot] = frozenset().union(*(entry.keys for entry in taken))
        return taken
