"""How many timers may fire in one batch, so that no outage of others makes a batch long.

Limited is what timers do: checks, delayed deliveries, messages given up on. What is due and not allowed stays due, and
comes a batch or more later. Ops are judged in the batch that they come in, and what they commit is delivered in it.
Only where that is more content to be read again than there is time for in one of Kafka's transactions, the rest is
delivered by timers, like a delayed message.

**A batch that is run again must come to the same.** An allowance is spent by segments in turn, so that what a segment
gets depends on those before it. In Spark 4.2 their order is a fact of the batch, not of the run:

- A task evaluates the segments of its state partition in two runs of Python, first those that have rows, then those
  whose timer is due. Nothing says that both are in one process, so each has an allowance of its own
  (``streaming.stateful.segments``).
- Segments with rows come sorted by their key, each once: the operator requires that order of its input
  (``requiredChildOrdering``). In which order the shuffle brought the rows makes no difference.
- Segments whose timer is due come in the order of the state store's keys. RocksDB iterates in the order of the bytes of
  its keys, whatever was written when, compacted, or loaded from where; hence ``job.spark_options`` must not name
  another provider. Which of them are due follows from the store's version and the watermark, which are the batch's.
- Within a segment timers go by their deadline, then by their offset.

What was spent is forgotten with the run. Nothing here knows a clock, a process or a thread.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from state.rows import Column, rank

_ROUND_MS = 1_000
"""A batch, where turns are concerned. Shorter ones make it a limit per second, longer ones look at more segments."""
_SMALL_BYTES = 65_536
_MOST_ROUNDS = 10
"""Turns are looked ahead no further: what waits before a segment may have been decided meanwhile."""


@dataclass(frozen=True)
class RunLimits:
    """Of one state partition in one run of one batch."""

    events: int = 6_000
    """Timers that fire."""
    group_events: int = 5_000
    """Those of one producer group: one that is away leaves room for the others."""
    group_least: int = 50
    """So many of a group fire however many others' have: forty groups that are away leave room for one that is well."""
    payload_bytes: int = 64 << 20
    """Of messages that are written because of timers. The last one may lie across it: any message fits alone."""
    commit_bytes: int = 256 << 20
    """Of content that was set aside and is written because of ops; likewise. Twice what a batch reads by default."""


class Allowance:
    """What is left of the limits; segments take from it in turn."""

    def __init__(self, limits: RunLimits | None = None) -> None:
        self._limits = limits or RunLimits()
        self._spent = _Sum()
        self._left = _Sum()
        self._committed_bytes = 0

    def take(self, groups: Column, sizes: Column) -> Column:
        """bool[n]: which of n timers of a segment may fire, in the order in which they are due.

        Args:
            groups: str[n], producer groups.
            sizes: int64[n], bytes that each would have written.
        """
        limits = self._limits
        encoded = pa.array(groups, pa.string()).dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        place = np.array([self._spent.of_group[name] for name in names])[codes] + rank(codes)
        allowed: Column = place < limits.group_events
        events = self._spent.events + np.cumsum(allowed) - allowed
        payload = self._spent.payload_bytes + np.cumsum(sizes * allowed) - sizes * allowed
        room = (events < limits.events) & (payload < limits.payload_bytes)
        allowed &= room | ((place < limits.group_least) & (sizes <= _SMALL_BYTES))
        self._spent.add(names, codes[allowed], sizes[allowed])
        return allowed

    def take_commits(self, sizes: Column) -> Column:
        """bool[n]: which of n commits of a segment may be delivered now, in their order.

        Args:
            sizes: int64[n], bytes of content that each would have read again.
        """
        before = self._committed_bytes + np.cumsum(sizes) - sizes
        allowed: Column = before < self._limits.commit_bytes
        self._committed_bytes += int(sizes[allowed].sum())
        return allowed

    def put_off(self, groups: Column, sizes: Column) -> int:
        """Leave these timers of a segment, at least one, for later; in how many ms its turn is, 0: in the next batch.

        Each look at a segment rewrites it, so one whose turn cannot come yet is not looked at in each batch.
        """
        limits, before = self._limits, self._left
        encoded = pa.array(groups, pa.string()).dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        rounds = max(
            before.events // limits.events,
            before.payload_bytes // limits.payload_bytes,
            min(before.of_group[name] for name in names) // limits.group_events,
        )
        before.add(names, codes, sizes)
        return min(rounds, _MOST_ROUNDS) * _ROUND_MS


class _Sum:
    def __init__(self) -> None:
        self.events = 0
        self.payload_bytes = 0
        self.of_group: Counter[str] = Counter()

    def add(self, names: list[str], codes: Column, sizes: Column) -> None:
        self.events += len(codes)
        self.payload_bytes += int(sizes.sum())
        for name, number in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
            self.of_group[name] += number
