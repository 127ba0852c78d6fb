"""What happened in the last hour, in stretches of half a minute."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields

from status_page.facts import FlowPoint

STRETCH_MS = 30_000
STRETCHES = 120
_NAMES = tuple(field.name for field in fields(FlowPoint) if field.name != "time_ms")


class Flow:
    """Adds up what batches did. May be asked by any thread; of what was before ``begun_ms`` it knows nothing."""

    def __init__(self, begun_ms: int = 0) -> None:
        self._first = begun_ms // STRETCH_MS
        self._lock = threading.Lock()
        self._stretches: dict[int, Counter[str]] = {}

    def add(self, now_ms: int, counts: Mapping[str, int]) -> None:
        """A batch that has ended now did this."""
        stretch = now_ms // STRETCH_MS
        with self._lock:
            found = self._stretches.setdefault(stretch, Counter())
            for name in _NAMES:
                found[name] += counts.get(name, 0)
            for old in [number for number in self._stretches if number <= stretch - STRETCHES]:
                del self._stretches[old]

    def points(self, now_ms: int) -> tuple[FlowPoint, ...]:
        """``STRETCHES`` of them, or those since it was begun, the oldest first, the last one not over yet."""
        last = now_ms // STRETCH_MS
        with self._lock:
            return tuple(
                FlowPoint(number * STRETCH_MS, **self._stretches.get(number, Counter()))
                for number in range(max(last - STRETCHES + 1, self._first), last + 1)
            )
