"""What the access policy has refused since the job was started, for people."""

import threading
from collections.abc import Mapping

from status_page.facts import RefusedMessages

_MOST = 200
_SHOWN = 20


class RefusedSoFar:
    """Learns from batches. May be asked by any thread. Bounded: the pairs of group and topic that came last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], RefusedMessages] = {}

    def add(self, refused: Mapping[tuple[str, str, str], int], now_ms: int) -> None:
        """Take in what a batch says: by group, topic and reason."""
        with self._lock:
            for (group, topic, reason), number in refused.items():
                before = self._found.pop((group, topic), None)
                sum_of = number + (before.number if before else 0)
                self._found[group, topic] = RefusedMessages(group, topic, sum_of, reason, now_ms)
                if len(self._found) > _MOST:
                    del self._found[next(iter(self._found))]

    def most(self) -> tuple[RefusedMessages, ...]:
        """The newest of them, the last one first."""
        with self._lock:
            return tuple(reversed(self._found.values()))[:_SHOWN]
