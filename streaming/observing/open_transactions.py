"""What is undecided, by producer group and real topic: how many, and since when the oldest."""

import threading
from collections.abc import Mapping

from state import OpenByTopic
from streaming.batch.batch import OpenBySegment


class OpenTransactions:
    """Learns from batches which segments have what. May be asked by any thread.

    After a start it knows of segments that batches have changed, and of all when the state has been counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[tuple[int, int], OpenByTopic] = {}
        self._ended: set[tuple[int, int]] = set()
        """Segments without any, of which a count that was begun earlier may still have some."""
        self._summed: OpenByTopic | None = {}
        self._counted = False

    @property
    def counted(self) -> bool:
        """Whether all that is undecided is known."""
        return self._counted

    def changed(self, batch: int, still_open: OpenBySegment) -> None:
        """Take in what a batch has changed."""
        with self._lock:
            self._counted = self._counted or batch == 0
            for place, found in still_open.items():
                if found:
                    self._segments[place] = found
                    continue
                self._segments.pop(place, None)
                if not self._counted:
                    self._ended.add(place)
            if still_open:
                self._summed = None

    def begin_with(self, counted: OpenBySegment) -> None:
        """Take in what a count of the state has found; what batches have said since the start is newer, or the same."""
        with self._lock:
            if self._counted:
                return
            fresh = {place: found for place, found in counted.items() if place not in self._ended}
            self._segments = {**fresh, **self._segments}
            self._counted = True
            self._ended.clear()
            self._summed = None

    def by_topic(self) -> Mapping[tuple[str, str], tuple[int, int]]:
        """All of them together: how many, and when the oldest was taken in (ms since 1970), by group and topic."""
        with self._lock:
            if self._summed is None:
                found: OpenByTopic = {}
                for segment in self._segments.values():
                    for key, one in segment.items():
                        found[key] = found[key].plus(one) if key in found else one
                self._summed = found
            return self._summed
