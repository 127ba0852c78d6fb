"""The half messages of a producer's lanes, and the queue of those committed. Threads share it. No I/O."""

import threading
from collections import deque
from collections.abc import Iterable

from checkback.listener import HalfMessage
from checkback.own_lanes import LaneAnswer
from checkback.producing.direct.entries import LaneHalf, Stage
from checkback.wire.checks import CheckRequest
from checkback.wire.delivered import LaneFact
from checkback.wire.protocol import Action, HalfPosition

_MOST_OPEN = 100_000
"""Half messages that the application has not ended; the oldest is given to the job then."""
_MOST_TOGETHER = 200
"""Transactions in one of Kafka's. At 3,000 a second there are about 20."""
_MOST_BYTES = 1 << 20


class Book:
    """Which half messages the lanes may still deliver, or have. What is not in it, they never will.

    So it is asked before anybody else decides one: an entry that is taken out is delivered by no lane, and one that
    somebody has put into a Kafka transaction leaves when its op is acknowledged.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._entries: dict[str, LaneHalf] = {}
        self._queue: deque[LaneHalf] = deque()
        self._flying = 0
        self._closed = False

    def add(self, entry: LaneHalf) -> None:
        """Before its half message is written: it may be asked about before its writer hears of it."""
        with self._lock:
            self._entries[entry.transaction_id] = entry
            if len(self._entries) > _MOST_OPEN:
                oldest = next(iter(self._entries.values()))
                if oldest.stage is Stage.OPEN:
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
            if entry is None or (self._closed and entry.stage is Stage.OPEN):
                return None, True
            if entry.stage is Stage.OPEN:
                entry.remark, entry.stage = remark, Stage.WAITING
                self._queue.append(entry)
                self._changed.notify_all()
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

    def take(self, seconds: float) -> list[LaneHalf]:
        """The next ones to deliver together, in the order of their commits; waits for the first for ``seconds``."""
        with self._lock:
            if not self._queue and not self._closed:
                self._changed.wait(seconds)
            taken: list[LaneHalf] = []
            size = 0
            while self._queue and len(taken) < _MOST_TOGETHER:
                size += self._queue[0].size
                if taken and size > _MOST_BYTES:
                    break
                entry = self._queue.popleft()
                entry.stage = Stage.FLYING
                taken.append(entry)
            self._flying += len(taken)
            return taken

    def delivered(self, entries: Iterable[LaneHalf]) -> None:
        """The Kafka transaction has committed."""
        with self._lock:
            for entry in entries:
                self._become(entry, Stage.DELIVERED)
                entry.end(by_lane=True)

    def drained(self, seconds: float) -> bool:
        """Wait until nothing waits or flies any more, for at most ``seconds``."""
        with self._lock:
            return self._changed.wait_for(lambda: not self._queue and not self._flying, seconds)

    def close(self) -> list[LaneHalf]:
        """Nothing is taken from now on; gives those that still wait, which no lane delivers any more."""
        with self._lock:
            self._closed = True
            waiting = list(self._queue)
            self._queue.clear()
            for entry in waiting:
                self._remove(entry)
            self._changed.notify_all()
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

    def _of(self, message: HalfMessage) -> LaneHalf | None:
        entry = self._entries.get(message.transaction_id)
        return entry if entry is not None and entry.place == message.half else None

    def _remove(self, entry: LaneHalf) -> None:
        if self._entries.get(entry.transaction_id) is entry:
            del self._entries[entry.transaction_id]
        if entry.stage is not Stage.DELIVERED:
            self._become(entry, Stage.LEFT)
            entry.end(by_lane=False)

    def _become(self, entry: LaneHalf, stage: Stage) -> None:
        if entry.stage is Stage.FLYING:
            self._flying -= 1
            self._changed.notify_all()
        entry.stage = stage
