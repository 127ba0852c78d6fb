"""Committed messages that their topics do not take: how many, why, and when they are tried next."""

import threading
from collections.abc import Mapping

from status_page.facts import HeldMessages

_MOST = 10_000
LATE_S = 600
"""Each is tried again within so many seconds."""


class HeldNow:
    """Learns from batches. May be asked by any thread. What was held before the start it knows from the next try on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], tuple[int, str]] = {}
        """By topic and time of the next try (s): how many, and why."""

    def changed(self, changes: Mapping[tuple[str, int, str], int], now_ms: int) -> None:
        """Take in what a batch says: see :class:`streaming.batch.batch.HeldUntil`."""
        with self._lock:
            for (topic, until_s, reason), change in sorted(changes.items(), key=lambda one: one[1]):
                number, why = self._held.get((topic, until_s), (0, ""))
                if number + change <= 0:
                    self._held.pop((topic, until_s), None)
                elif number or len(self._held) < _MOST:
                    self._held[topic, until_s] = number + change, reason or why
            overdue_s = now_ms // 1000 - LATE_S
            for held in [one for one in self._held if one[1] < overdue_s]:  # lost otherwise: retention, an operator
                del self._held[held]

    def by_topic(self) -> tuple[HeldMessages, ...]:
        """Topics with most first; of each the reason that was given last."""
        found: dict[str, HeldMessages] = {}
        with self._lock:
            for (topic, until_s), (number, why) in self._held.items():
                before = found.get(topic)
                next_ms = until_s * 1000 if before is None else min(before.next_ms, until_s * 1000)
                found[topic] = HeldMessages(topic, number + (before.number if before else 0), why, next_ms)
        return tuple(sorted(found.values(), key=lambda one: (-one.number, one.topic)))
