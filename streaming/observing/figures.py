"""Figures that a job's batches and its start have told, for people: of the last hour, and of now."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from math import inf

from state import OpenByTopic
from status_page.facts import FlowPoint, HeldMessages, PartitionBacklog, RefusedMessages, StepFacts
from streaming.batch.batch import OpenBySegment
from streaming.fairness.held_back import PartitionEnds, PartitionId
from streaming.ownership.clock import wall_ms

STRETCH_MS = 30_000
STRETCHES = 120
_NAMES = tuple(field.name for field in fields(FlowPoint) if field.name != "time_ms")
_MOST_HELD = 10_000
LATE_S = 600
"""Each is tried again within so many seconds."""
_MOST_REFUSED = 200
_REFUSED_SHOWN = 20
_GOOD_SECONDS = 10.0
"""What was found out about the ends says nothing any more after that: Kafka has not answered since."""
_LOGGER = logging.getLogger(__name__)


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


class HeldNow:
    """Committed messages that their topics do not take: how many, why, and when they are tried next.

    Learns from batches. May be asked by any thread. What was held before the start it knows from the next try on.
    """

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
                elif number or len(self._held) < _MOST_HELD:
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


class RefusedSoFar:
    """What the access policy has refused since the job was started.

    Learns from batches. May be asked by any thread. Bounded: the pairs of group and topic that came last.
    """

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
                if len(self._found) > _MOST_REFUSED:
                    del self._found[next(iter(self._found))]

    def most(self) -> tuple[RefusedMessages, ...]:
        """The newest of them, the last one first."""
        with self._lock:
            return tuple(reversed(self._found.values()))[:_REFUSED_SHOWN]


class OpenTransactions:
    """What is undecided, by producer group and real topic: how many, and since when the oldest.

    Learns from batches which segments have what. May be asked by any thread.

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


class JobBacklog:
    """Of ``topics``. Both ends and what is read only ever go on, so the furthest that is known of each counts.

    ``now`` is seconds of a clock that only goes on.

    Records that the job has not taken in: from where Kafka's partitions end and what the query has read. Not from what
    Spark says of the last batch alone: after a start there is none, and that is when it matters most.
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


class StartUp:
    """What a start is doing, step by step: it may take minutes on a busy machine.

    Told of each step by the job's threads, asked by the page's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[StepFacts] = []
        self._running_ms: int | None = None
        self._over = False

    @property
    def running_ms(self) -> int | None:
        """Since when batches are begun; None: not yet."""
        return self._running_ms

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        """All so far, in their order; the last one is under way unless the start is over."""
        with self._lock:
            return tuple(self._steps)

    def step(self, name: str) -> None:
        """Say what is done next; what was done before has ended. Nothing happens once the start is over."""
        if self._over or (self._steps and self._steps[-1].name == name):
            return
        time_ms = wall_ms()
        with self._lock:
            self._end(time_ms)
            self._steps.append(StepFacts(name, time_ms))
        _LOGGER.info("Start-up, after %.1f s: %s", (time_ms - self._steps[0].began_ms) / 1000, name)

    def running(self) -> None:
        """Batches are begun from now on."""
        self._running_ms = wall_ms()

    def over(self) -> None:
        """The first batch has ended. Harmless when it is said again."""
        if self._over or not self._steps:
            return
        self._over = True
        with self._lock:
            self._end(wall_ms())
        took = sum(step.seconds or 0.0 for step in self._steps)
        said = ", ".join(f"{step.name} {step.seconds or 0.0:.1f} s" for step in self._steps)
        _LOGGER.info("The first batch has ended, %.1f s after the start: %s", took, said)

    def _end(self, time_ms: int) -> None:
        if self._steps:
            last = self._steps[-1]
            self._steps[-1] = replace(last, seconds=(time_ms - last.began_ms) / 1000)
