"""The half messages of a producer's lanes, and the queue of those committed. Threads share it. No I/O."""

import threading
from collections.abc import Iterable, Sequence
from itertools import islice

from checkback.listener import HalfMessage
from checkback.own_lanes import LaneAnswer
from checkback.producing.direct.entries import LaneHalf, OrderKey, Stage
from checkback.producing.direct.key_order import KeyOrder
from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action, HalfPosition

_MOST_OPEN = 100_000
"""Half messages that the application has not ended; the oldest is given to the job then."""
_LOOKED_AT = 1_000
"""Entries, for one that is open."""


class Book:
    """Which half messages the lanes may still deliver, or have. What is not in it, they never will.

    So it is asked before anybody else decides one: an entry that is taken out is delivered by no lane, and one that
    somebody has put into a Kafka transaction leaves when its op is acknowledged. ``slots``: lanes at a time.
    """

    def __init__(self, slots: int = 1) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._ready = [threading.Condition(self._lock) for _ in range(slots)]
        """Something of that slot may be taken."""
        self._order = KeyOrder(slots)
        self._entries: dict[str, LaneHalf] = {}
        self._lost: set[str] = set()
        """Lanes that deliver nothing any more."""
        self._flying = 0
        self._closed = False

    def slot(self, keys: frozenset[OrderKey], fit: Sequence[int]) -> int:
        """Which of the slots ``fit`` a half message with these keys is to name the lane of."""
        with self._lock:
            return self._order.slot(keys, fit)

    def add(self, entry: LaneHalf) -> None:
        """Before its half message is written: it may be asked about before its writer hears of it."""
        with self._lock:
            self._entries[entry.transaction_id] = entry
            self._order.add(entry)
            if len(self._entries) > _MOST_OPEN:
                among = islice(self._entries.values(), _LOOKED_AT)
                oldest = next((one for one in among if one.stage is Stage.OPEN), None)
                if oldest is not None:
                    self._remove(oldest)

    def written(self, entry: LaneHalf, place: HalfPosition) -> None:
        """Kafka has acknowledged it."""
        with self._lock:
            entry.place, entry.stage = place, Stage.OPEN

    def remove(self, entry: LaneHalf) -> None:
        """No lane delivers it any more."""
        with self._lock:
            self._remove(entry)

    def commit(self, message: HalfMessage, remark: str) -> tuple[LaneHalf | None, bool]:
        """Let a half message wait for its Kafka transaction.

        Gives its entry, and whether the job has to be told instead: of one that no lane delivers.
        """
        with self._lock:
            entry = self._of(message)
            if entry is None:
                return None, True
            if entry.stage is Stage.OPEN and (self._closed or entry.lane in self._lost):
                self._remove(entry)
                return None, True
            if entry.stage is Stage.OPEN:
                entry.remark, entry.stage = remark, Stage.WAITING
                if self._order.wait(entry):
                    self._ready[entry.slot].notify()
            return entry, False

    def leave(self, message: HalfMessage) -> bool:
        """Take an open half message out; False when it was committed before."""
        with self._lock:
            entry = self._of(message)
            if entry is None:
                return True
            if entry.stage is not Stage.OPEN:
                return False
            self._remove(entry)
            return True

    def take(self, seconds: float, slot: int = 0) -> list[LaneHalf]:
        """The next ones to deliver together by this slot's lane, those of a key in the order of their commits.

        Waits for the first for ``seconds``. Whoever calls it is done with what it took before.
        """
        with self._lock:
            if self._order.landed(slot):
                self._wake()
            taken = self._order.take(slot)
            if not taken and not self._closed and self._ready[slot].wait(seconds):
                taken = self._order.take(slot)
            for entry in taken:
                entry.stage = Stage.FLYING
            self._flying += len(taken)
            return taken

    def lose(self, lane: str, slot: int) -> list[LaneHalf]:
        """That lane, which is this slot's, delivers nothing any more; gives what waits for it."""
        with self._lock:
            self._lost.add(lane)
            self._order.landed(slot)
            waiting = self._order.clear(slot)
            self._wake()
            return waiting

    def nobody_knows(self, entry: LaneHalf) -> None:
        """Whether it was delivered: it stays in the book, so that nobody promises anything, and nobody waits for it."""
        with self._lock:
            self._become(entry, Stage.UNKNOWN)

    def delivered(self, entries: Iterable[LaneHalf]) -> None:
        """The Kafka transaction has committed."""
        with self._lock:
            for entry in entries:
                self._become(entry, Stage.DELIVERED)
                entry.end(by_lane=True)

    def drained(self, seconds: float) -> bool:
        """Wait until nothing waits or flies any more, for at most ``seconds``."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._order.waits() and not self._flying, seconds)

    def flying(self) -> list[LaneHalf]:
        """Those in a Kafka transaction of which nobody has heard yet what became of it."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.stage is Stage.FLYING]

    def close(self) -> list[LaneHalf]:
        """Nothing is taken from now on; gives those that still wait, which no lane delivers any more."""
        with self._lock:
            self._closed = True
            waiting = [entry for slot in range(len(self._ready)) for entry in self._order.clear(slot)]
            for entry in waiting:
                self._remove(entry)
            self._changed.notify_all()
            self._wake()
            return waiting

    def known(self, request: CheckRequest) -> LaneAnswer | None:
        """See :class:`~checkback.own_lanes.LaneOwner`."""
        with self._lock:
            entry = self._entries.get(request.transaction_id)
            if entry is None or entry.stage is Stage.OPEN:
                return None
            if entry.stage is Stage.DELIVERED and entry.place == request.half:
                return LaneAnswer(Action.COMMIT, LaneFact.DELIVERED)
            return LaneAnswer(Action.UNKNOWN, None)

    def leaves(self, request: CheckRequest) -> bool:
        """See :class:`~checkback.own_lanes.LaneOwner`."""
        with self._lock:
            entry = self._entries.get(request.transaction_id)
            if entry is None:
                return True
            if entry.stage is not Stage.OPEN:
                return False
            if entry.place == request.half:
                self._remove(entry)
            return True

    def _wake(self) -> None:
        for ready in self._ready:
            ready.notify()

    def _of(self, message: HalfMessage) -> LaneHalf | None:
        entry = self._entries.get(message.transaction_id)
        return entry if entry is not None and entry.place == message.half else None

    def _remove(self, entry: LaneHalf) -> None:
        if self._entries.get(entry.transaction_id) is entry:
            del self._entries[entry.transaction_id]
            self._order.discard(entry)
        if entry.stage is not Stage.DELIVERED:
            self._become(entry, Stage.LEFT)
            entry.end(by_lane=False)

    def _become(self, entry: LaneHalf, stage: Stage) -> None:
        if entry.stage is Stage.FLYING:
            self._flying -= 1
            self._changed.notify_all()
        entry.stage = stage
