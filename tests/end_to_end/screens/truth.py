"""What may be said at a moment: bounds from what was read before it and after it."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.end_to_end.screens.oracle import Moment, Offsets, Records, total_between
from tests.place import HALF_PARTITIONS

_NEVER = np.iinfo(np.int64).max
_Chosen = npt.NDArray[np.bool_]


class Bounds(NamedTuple):
    """A number is true when it lies between them."""

    low: int
    high: int

    def have(self, number: float) -> bool:
        return self.low <= number <= self.high


class Halves:
    """All half messages, in columns: they are counted once for each of thousands of statements."""

    def __init__(self, records: Records, half_topic: str, op_topic: str) -> None:
        own = list(records.halves.items())
        ops = [records.ops.get(at) for at, _ in own]
        self._topics = half_topic, op_topic
        self._partition = np.array([at[0] for at, _ in own], dtype=np.int64)
        self._offset = np.array([at[1] for at, _ in own], dtype=np.int64)
        self._op = np.array([op.offset if op else _NEVER for op in ops], dtype=np.int64)
        self._action = np.array([op.action if op else "" for op in ops])
        # what the job itself writes, of messages that it holds, is open to nobody
        self._group = np.array(["" if half.copy else half.group for _, half in own])
        self.groups = sorted({half.group for _, half in own})
        self.of_producers: _Chosen = self._group != ""

    def taken(self, offsets: Offsets) -> _Chosen:
        """The half message was read."""
        return self._offset < self._limits(self._topics[0], offsets)

    def decided(self, offsets: Offsets) -> _Chosen:
        """Its first commit or rollback was read."""
        return self._op < self._limits(self._topics[1], offsets)

    def of(self, group: str) -> _Chosen:
        found: _Chosen = self._group == group
        return found

    def to(self, action: str) -> _Chosen:
        found: _Chosen = self._action == action
        return found

    def _limits(self, topic: str, offsets: Offsets) -> npt.NDArray[np.int64]:
        each = [offsets.get((topic, number), 0) for number in range(HALF_PARTITIONS)]
        return np.array(each, dtype=np.int64)[self._partition]


class Truth:
    """Of one sample; ``started``: what there was when the run that was asked was started."""

    def __init__(self, records: Records, halves: Halves, before: Moment, after: Moment, started: Moment) -> None:
        self.records, self.halves = records, halves
        self.before, self.after, self.started = before, after, started

    @property
    def backlog(self) -> Bounds:
        """Records that no batch that has ended has read."""
        most = total_between(self.after.ends, self.before.done)
        return Bounds(total_between(self.before.ends, self.after.done), most)

    def backlog_of(self, topic: str, partition: int) -> Bounds:
        at = (topic, partition)
        low = self.before.ends.get(at, 0) - self.after.done.get(at, 0)
        return Bounds(max(0, low), max(0, self.after.ends.get(at, 0) - self.before.done.get(at, 0)))

    @property
    def batches(self) -> Bounds:
        """The newest that has ended."""
        return Bounds(self.before.batch, self.after.batch)

    @property
    def batch_has_ended(self) -> bool:
        """Of this run, for certain."""
        return self.before.batch > self.started.batch

    @property
    def batch_may_have_ended(self) -> bool:
        return self.after.batch > self.started.batch

    @property
    def taken_in(self) -> int:
        """Records that this run has read in batches that have ended, at least."""
        return total_between(self.before.done, self.started.begun)

    @property
    def came(self) -> int:
        """Records that came since the last batch of the run before was begun, at least."""
        return total_between(self.before.ends, self.started.begun)

    def open_of(self, group: str) -> Bounds:
        """Undecided transactions that were taken in."""
        of, halves = self.halves.of(group), self.halves
        low = of & halves.taken(self.before.done) & ~halves.decided(self.after.begun)
        high = of & halves.taken(self.after.begun) & ~halves.decided(self.before.done)
        return Bounds(int(low.sum()), int(high.sum()))

    def most_committed(self, group: str) -> int:
        """Commits of a group's messages that may have been taken in."""
        return int((self.halves.of(group) & self._counted("commit", self.after.begun)).sum())

    @cached_property
    def flow(self) -> dict[str, Bounds]:
        """What this run has counted: nothing of batches that the run before may have written, at least."""
        return {name: self._between(action) for name, action in _FLOW.items()}

    @property
    def in_doubt(self) -> Bounds:
        numbers = self.records.in_doubt[self.before.status_rows : self.after.status_rows + 1]
        return Bounds(min(numbers), max(numbers))

    def in_doubt_rows(self) -> Mapping[str, list[dict[str, Any] | None]]:
        """What may be known of each transaction in doubt, by the place of its half message."""
        found: dict[str, list[dict[str, Any] | None]] = {}
        for at, row in self.records.status[: self.before.status_rows]:
            found[at] = [row]
        for at, row in self.records.status[self.before.status_rows : self.after.status_rows]:
            found.setdefault(at, [None]).append(row)
        return found

    def heard_ms(self, group: str, url: str) -> Bounds | None:
        """When the last heartbeat came; None: none had come."""
        times = [beat.time_ms if (beat.group, beat.url) == (group, url) else 0 for beat in self.records.beats]
        low, high = max(times[: self.before.beats], default=0), max(times[: self.after.beats], default=0)
        return Bounds(low, high) if high else None

    def announced(self, newer_than_ms: float) -> set[str]:
        """Groups of which a heartbeat came after that, for certain."""
        return {beat.group for beat in self.records.beats[: self.before.beats] if beat.time_ms > newer_than_ms}

    def _counted(self, action: str, offsets: Offsets) -> _Chosen:
        """Of half messages, or of decisions: such a one counts once both it and its half message were read."""
        taken = self.halves.taken(offsets)
        chosen = self.halves.decided(offsets) & self.halves.to(action) if action else self.halves.of_producers
        return taken & chosen

    def _between(self, action: str) -> Bounds:
        low = self._counted(action, self.before.done) & ~self._counted(action, self.started.begun)
        high = self._counted(action, self.after.begun) & ~self._counted(action, self.started.done)
        return Bounds(int(low.sum()), int(high.sum()))


_FLOW = {"half": "", "committed": "commit", "rolled_back": "rollback"}


def around(moments: Sequence[Moment], began: float, ended: float) -> tuple[Moment, Moment]:
    """What was read before, and what after."""
    before = bisect_right([one.ended for one in moments], began) - 1
    after = bisect_left([one.began for one in moments], ended)
    return moments[max(0, before)], moments[after]
