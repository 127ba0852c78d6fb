"""The figures of an outage, made from what was sampled while it lasted. Times are seconds of ``time.time()``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_DRAINED_SHARE = 0.99
"""The last per cent may wait for a pause that has little to do with the rate."""


@dataclass
class Course:
    """When what happened."""

    quiet: float = 0.0
    """The healthy group's time alone begins: all is warm."""
    opening: float = 0.0
    """The other groups begin to open transactions, and cannot be asked."""
    away: float = 0.0
    """All are open."""
    back: float = 0.0
    """Their endpoints are there again."""
    killed: float = 0.0
    """SIGKILL of the job."""
    recovered: float = 0.0
    """The first message was delivered whose transaction began after it."""
    drained: float = 0.0
    """Every open transaction has been delivered."""

    def phase(self, began: float, ended: float) -> str | None:
        """What something belongs to that lasted from one moment to another; None: to what is not looked at.

        The time while the transactions are opened, and that from the kill until the job delivers again, are none. The
        rest of the drain is "restarted": alone, too, a job takes a minute until it is as quick as it can be.
        """
        if self.quiet <= began and ended <= self.opening:
            return "alone"
        if self.away <= began <= self.back:
            return "away"
        if self.back < began <= self.drained:
            if began > self.recovered >= self.killed > 0:
                return "restarted"
            if not self.killed or ended < self.killed:
                return "drain"
        return None


class Delivery(NamedTuple):
    """A transaction of the healthy group."""

    sent: float
    """Its half message was handed to the client."""
    delivered: float
    checked: bool
    """It had no op: only a check could decide it."""


@dataclass(frozen=True)
class Times:
    """Milliseconds, of the phases."""

    p50_ms: dict[str, float]
    p99_ms: dict[str, float]
    p99_to_alone: dict[str, float]
    """How many times as long as alone."""
    counted: dict[str, int]


PHASES = ("alone", "away", "drain", "restarted")


def delivery_times(deliveries: Sequence[Delivery], course: Course, *, checked: bool) -> Times:
    """From half message to delivery, of those that needed a check or of the others; of a phase without any: nothing."""
    found: dict[str, list[float]] = {name: [] for name in PHASES}
    for delivery in deliveries:
        phase = course.phase(delivery.sent, delivery.delivered)
        if delivery.checked == checked and phase is not None:
            found[phase].append(1000 * (delivery.delivered - delivery.sent))
    some = {name: times for name, times in found.items() if times}
    p99 = {name: round(float(np.percentile(times, 99)), 1) for name, times in some.items()}
    return Times(
        p50_ms={name: round(float(np.percentile(times, 50)), 1) for name, times in some.items()},
        p99_ms=p99,
        p99_to_alone={name: round(value / p99["alone"], 2) for name, value in p99.items() if p99.get("alone")},
        counted={name: len(times) for name, times in found.items()},
    )


class Batch(NamedTuple):
    """Of the job's query."""

    began: float
    ended: float


def batch_seconds(batches: Sequence[Batch], course: Course, of: Callable[[Sequence[float]], float]) -> dict[str, float]:
    """One figure of the batches' durations (s) in each phase that had any."""
    found: dict[str, list[float]] = {}
    for batch in batches:
        phase = course.phase(*batch)
        if phase is not None:
            found.setdefault(phase, []).append(batch.ended - batch.began)
    return {name: round(of(found[name]), 2) for name in PHASES if name in found}


class Drained(NamedTuple):
    """So many had been delivered at a moment."""

    at: float
    delivered: int


def drain_per_second(samples: Sequence[Drained], course: Course) -> float:
    """Deliveries per second of the groups that came back, from the first to 99 % of all.

    The time from the kill until the first delivery after it does not count; 0 when nothing was delivered.
    """
    growing = [new for old, new in pairwise(samples) if new.delivered > old.delivered]
    if samples and samples[0].delivered:
        growing.insert(0, samples[0])
    if not growing:
        return 0.0
    enough = _DRAINED_SHARE * growing[-1].delivered
    last = next(sample for sample in growing if sample.delivered >= enough)
    first = growing[0]
    seconds = last.at - first.at
    if course.killed and first.at <= course.killed <= last.at:
        again = next((sample.at for sample in growing if sample.at > course.killed), course.killed)
        seconds -= again - course.killed
    return round((last.delivered - first.delivered) / seconds, 1) if seconds > 0 else 0.0


@dataclass
class CheckRecords:
    """What was written to ``cb.check`` for the groups that were away."""

    records: int = 0
    while_away: int = 0
    """Of these, before their endpoints were back."""
    bytes: int = 0
    """Keys, values and headers, not compressed."""

    def add(self, at: float, size: int, course: Course) -> None:
        """One record more, of that time and size (bytes)."""
        self.records += 1
        self.bytes += size
        self.while_away += at < course.back


@dataclass(frozen=True)
class Asked:
    """What the endpoints that answer were asked."""

    again_percent: float
    """Of all transactions that were asked about: those that were more than once."""
    after_seconds: dict[str, float | None] = field(default_factory=dict)
    """Until each group was asked, from its endpoints' return; None: never."""


def asked(first: Mapping[str, float | None], once: int, again: int, course: Course) -> Asked:
    """From the moments (s) of each group's first question, and how many transactions were asked about, and again."""
    after = {group: None if at is None else round(at - course.back, 1) for group, at in first.items()}
    return Asked(round(100 * again / once, 2) if once else 0.0, after)
