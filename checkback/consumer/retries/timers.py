"""Parcels that wait for their time."""

import heapq
import itertools
import threading
from collections.abc import Iterator

from checkback.consumer.offsets.work import Parcel


class Timers:
    """From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = itertools.count()
        self._heap: list[tuple[float, int, Parcel]] = []

    def add(self, at: float, parcel: Parcel) -> None:
        """It is due at that time."""
        with self._lock:
            heapq.heappush(self._heap, (at, next(self._number), parcel))

    def due(self, now: float) -> Iterator[Parcel]:
        """Take those that are due, in the order of their times."""
        while True:
            with self._lock:
                if not self._heap or self._heap[0][0] > now:
                    return
                parcel = heapq.heappop(self._heap)[2]
            yield parcel

    def wait(self, now: float, most: float) -> float:
        """Seconds until the next is due, ``most`` at most."""
        with self._lock:
            return max(0.0, min(most, self._heap[0][0] - now)) if self._heap else most
