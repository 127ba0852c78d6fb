"""How many records the job has not taken in: from where Kafka's partitions end and what the query has read.

Not from what Spark says of the last batch alone: after a start there is none, and that is when it matters most.
"""

import threading
from collections.abc import Iterable, Mapping
from math import inf

from status_page.facts import PartitionBacklog
from streaming.fairness.held_back import PartitionEnds, PartitionId

_GOOD_SECONDS = 10.0
"""What was found out about the ends says nothing any more after that: Kafka has not answered since."""


class JobBacklog:
    """Of ``topics``. Both ends and what is read only ever go on, so the furthest that is known of each counts.

    ``now`` is seconds of a clock that only goes on.
    """

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = frozenset(topics)
        self._lock = threading.Lock()
        self._ends: dict[PartitionId, int] = {}
        self._first: dict[PartitionId, int] = {}
        self._read: dict[PartitionId, int] | None = None
        self._looked_at: dict[PartitionId, float] = {}

    def looked(self, found: Mapping[PartitionId, PartitionEnds], now: float) -> None:
        """Kafka's partitions begin and end there; those whose leader is away are not among them."""
        with self._lock:
            for place, ends in found.items():
                if place.topic in self._topics:
                    self._ends[place] = max(ends.end, self._ends.get(place, 0))
                    self._first.setdefault(place, ends.first)
                    self._looked_at[place] = now

    def read_to(self, places: Mapping[tuple[str, int], int]) -> None:
        """All batches until now that have ended have taken in what lies before these places."""
        with self._lock:
            self._read = self._read or {}
            for place, offset in places.items():
                self._read[PartitionId(*place)] = max(offset, self._read.get(PartitionId(*place), 0))

    def now(self, now: float) -> tuple[PartitionBacklog, ...] | None:
        """By partition; None as long as either is not known, of all of them."""
        with self._lock:
            if self._read is None:
                return None
            places = self._ends.keys() | {place for place in self._read if place.topic in self._topics}
            looked_at = min((self._looked_at.get(place, -inf) for place in places), default=-inf)
            if now - looked_at > _GOOD_SECONDS:
                return None
            return tuple(
                PartitionBacklog(*place, max(0, end - max(self._read.get(place, 0), self._first[place])))
                for place, end in sorted(self._ends.items())
            )
