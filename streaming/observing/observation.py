"""What people see of a running job: gathered from its batches, its check service and its quotas."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from checkback.version import __version__
from checkers.facts import GroupStanding
from conf import Settings
from state import REST, Usage
from status_page.facts import (
    MOST_GROUPS,
    BatchFacts,
    EndpointFacts,
    GroupFacts,
    HeldBackPartition,
    JobFacts,
    OpenOfTopic,
)
from status_page.words import NO_ENDPOINT, why_unasked
from streaming.batch.batch import BatchReport, OpenBySegment
from streaming.fairness.fairness import KnownUsage
from streaming.fairness.held_back import HeldBack, PartitionEnds, PartitionId
from streaming.observing.figures import LATE_S, Flow, HeldNow, JobBacklog, OpenTransactions, RefusedSoFar, StartUp
from streaming.observing.metrics import JobMetrics, KeptNow, OpenNow, tell_limits
from streaming.observing.progress import BatchProgress, Places, batch_progress
from streaming.ownership.claim import Owner
from streaming.ownership.clock import wall_ms

_MOST_BATCHES = 100
_STALLED_SECONDS = 60.0
"""A check service takes over from another one within 10 s, and an endpoint has a few seconds to answer."""
_NOTHING = KnownUsage(None, None, {})

ChecksStanding = Callable[[], Mapping[str, GroupStanding] | None]
"""By producer group; None: not known. Answers within a second."""
_NO_CHECKS = GroupStanding(0, 0, ())
_STANDS_STILL_SECONDS = 60
_BEHIND = 100_000
_LONG_START_SECONDS = 600
"""A start takes a minute or two on a busy machine; its steps are shown in any case."""
_MOST_NOTES = 10


class Observation:
    """A :class:`~status_page.facts.JobView`. Told of batches by the job's threads, asked by the page's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.metrics = JobMetrics(settings.job.name, self._refresh)
        tell_limits(self.metrics.registry, settings)
        self._open = OpenTransactions()
        self._held = HeldNow()
        self._refused = RefusedSoFar()
        self._started_ms = wall_ms()
        self._flow = Flow(self._started_ms)
        topics = settings.kafka.topics
        self._backlog = JobBacklog((topics.half, topics.op))
        self._unanswered = HeldBack()
        self._unanswered_seconds = 0.0
        self.start_up = StartUp()
        self._lock = threading.Lock()
        self._batches: deque[BatchFacts] = deque(maxlen=_MOST_BATCHES)
        self._last: BatchProgress | None = None
        self._held_back: dict[PartitionId, float] = {}
        self._writers: dict[PartitionId, str] = {}
        self._owner: Owner | None = None
        self._standing: Callable[[], KnownUsage] = lambda: _NOTHING
        self._checks: ChecksStanding = lambda: None
        self._ask_for_ends: Callable[[], None] = lambda: None
        self.policy_wrong: Callable[[], str] = lambda: ""
        """Why the policy file as it is now is not in force; empty: it is."""
        self.kafka_away_ms: int | None = None
        """Since when the query has been waiting for Kafka; None: it is not."""
        self.few_ops: Callable[[], str] = lambda: ""
        """See :attr:`streaming.ownership.preconditions.BatchPreconditions.few_ops`."""

    def of(self, owner: Owner, standing: Callable[[], KnownUsage], checks: ChecksStanding | None) -> None:
        """Whose job it is, and whom to ask about quotas and checks; batches are begun from now on."""
        self._owner, self._standing = owner, standing
        self._checks = checks or (lambda: None)
        self.start_up.running()
        self.metrics.running()

    def read_to(self, places: Places) -> None:
        """What the checkpoint's batches have taken in."""
        self._backlog.read_to(places)

    def ask_for_ends(self, ask: Callable[[], None]) -> None:
        """How to have :meth:`looked` told where partitions end now; waits for it a moment at most."""
        self._ask_for_ends = ask

    def looked(self, found: Mapping[PartitionId, PartitionEnds]) -> None:
        """Where Kafka's partitions end."""
        self._backlog.looked(found, time.monotonic())

    def answered(self, found: Mapping[PartitionId, PartitionEnds]) -> None:
        """How far the check services have answered checks; not before the job's own one runs."""
        if self.start_up.running_ms is not None:
            self._unanswered_seconds = max(self._unanswered.look(found, time.monotonic()).values(), default=0.0)
            self.metrics.unanswered(self._unanswered_seconds)

    def batch(self, report: BatchReport) -> None:
        """A batch is written."""
        self.metrics.observe(report)
        self._refused.add(report.refused, wall_ms())
        self._open.changed(report.batch, report.still_open)
        self._held.changed(report.held, wall_ms())
        self._flow.add(wall_ms(), report.counts)

    def counted(self, still_open: OpenBySegment) -> None:
        """The state was counted."""
        self._open.begin_with(still_open)

    def progress(self, said: Mapping[str, Any], waited_ms: int = 0) -> BatchProgress | None:
        """Take in Spark's report of a batch, which waited for so long at its end; None if it is an old one."""
        number = int(said["batchId"])
        if self._last is not None and number <= self._last.facts.number:
            return None
        found = batch_progress(said, waited_ms)
        with self._lock:
            self._last = found
            self._batches.append(found.facts)
        self._backlog.read_to(found.read_to)
        self.metrics.progress(found)
        self.start_up.over()
        return found

    def held_back(self, place: PartitionId, seconds: float) -> None:
        """For how long a partition that the job reads has been held back; 0 when it is not."""
        self.metrics.held_back(place, seconds)
        with self._lock:
            if seconds:
                self._held_back[place] = seconds
            else:
                self._held_back.pop(place, None)
                self._writers.pop(place, None)

    def held_back_by(self, place: PartitionId, writer: str) -> None:
        """Whose open transaction holds a partition back, as far as Kafka says."""
        with self._lock:
            self._writers[place] = writer

    def _refresh(self) -> None:
        """Let the metrics say how it stands."""
        self._ask_for_ends()
        standing, now_ms = self._standing(), wall_ms()
        self.metrics.policy_wrong(wrong=bool(self.policy_wrong()))
        self.metrics.backlog(self._backlog.now(time.monotonic()))
        self.metrics.stands(
            self._open_now(now_ms) if self._open.counted else None,
            [
                KeptNow(group, usage.open_bytes, usage.delayed, usage.parked)
                for group, usage in sorted((standing.usages or {}).items(), key=lambda one: -one[1].open_bytes)
            ],
        )
        if standing.state_bytes is not None:
            self.metrics.state_bytes(standing.state_bytes)

    def _open_now(self, now_ms: int) -> list[OpenNow]:
        by_topic = sorted(self._open.by_topic().items(), key=lambda one: -one[1][0])
        return [OpenNow(*key, number, max(0, now_ms - oldest) / 1000) for key, (number, oldest) in by_topic]

    def facts(self) -> JobFacts:
        """How it stands now."""
        self._ask_for_ends()
        settings, standing, now_ms = self._settings, self._standing(), wall_ms()
        checks = self._checks()
        waited = self._unanswered_seconds
        stalled = f"the check service has answered no check for {waited:.0f} s" if waited >= _STALLED_SECONDS else ""
        known = checks is not None and len(checks) < MOST_GROUPS
        with self._lock:
            batches, last = tuple(self._batches), self._last
            held_back = tuple(
                HeldBackPartition(*place, s, self._writers.get(place, "")) for place, s in self._held_back.items()
            )
        owner = self._owner
        facts = JobFacts(
            job=settings.job.name,
            version=__version__,
            run=owner.run if owner else "",
            host=owner.host if owner else socket.gethostname(),
            kafka=settings.kafka.bootstrap_servers,
            topic_prefix=settings.kafka.topic_prefix,
            checkpoint=settings.job.checkpoint,
            started_ms=self._started_ms,
            now_ms=now_ms,
            running_ms=self.start_up.running_ms,
            steps=self.start_up.steps,
            batch=last.facts if last else None,
            batches=batches,
            backlog=self._backlog.now(time.monotonic()),
            batch_limit=standing.batch_limit,
            held_back=held_back,
            held=(held := self._held.by_topic()),
            held_known=self._held_known(standing, sum(one.number for one in held), now_ms),
            state_bytes=standing.state_bytes,
            counted=self._open.counted,
            groups=self._groups(standing, checks or {}, stalled, known=known),
            flow=self._flow.points(now_ms) if last else (),
            checks_in_job=settings.checks.in_job,
            endpoints_known=known,
            policy_wrong=self.policy_wrong(),
            few_ops=self.few_ops(),
            kafka_away_ms=self.kafka_away_ms,
            checks_stalled=stalled,
            refused=self._refused.most(),
        )
        return notes_of(facts)

    def _held_known(self, standing: KnownUsage, held: int, now_ms: int) -> bool:
        """Held messages are counted among those that are delayed; by a pause of 10 min each has been tried again."""
        if standing.usages is None or self.start_up.running_ms is None:
            return False
        delayed = sum(usage.delayed for usage in standing.usages.values())
        return delayed <= held or now_ms - self.start_up.running_ms > LATE_S * 1000

    def _groups(
        self, standing: KnownUsage, checks: Mapping[str, GroupStanding], stalled: str, *, known: bool
    ) -> tuple[GroupFacts, ...]:
        usages, counted = standing.usages or {}, self._open.counted
        nothing = None if standing.usages is None else Usage()
        topics: dict[str, list[OpenOfTopic]] = {}
        for (group, topic), (number, oldest_ms) in self._open.by_topic().items():
            topics.setdefault(group, []).append(OpenOfTopic(topic, number, oldest_ms))
        # of segments with many groups some are put together there; what each has under way is counted apart
        exact = standing.usages is None or not topics.pop(REST[0], None)
        found = []
        for group in usages.keys() | topics.keys() | checks.keys() | standing.barred.keys():
            usage = usages.get(group, nothing)
            open_now = topics.get(group, [])
            asked = checks.get(group, _NO_CHECKS)
            endpoints = tuple(EndpointFacts(*one) for one in asked.endpoints)
            found.append(
                GroupFacts(
                    group=group,
                    open=(sum(one.open for one in open_now) if exact else usage and usage.open) if counted else None,
                    open_bytes=usage and usage.open_bytes,
                    delayed=usage and usage.delayed,
                    parked=usage and usage.parked,
                    topics=tuple(sorted(open_now, key=lambda one: -one.open)) if counted else (),
                    endpoints=endpoints,
                    unasked=stalled or (why_unasked(endpoints) if endpoints or not known else NO_ENDPOINT),
                    answers_for=asked.topics,
                    waiting=asked.waiting,
                    barred=standing.barred.get(group, ""),
                )
            )
        found.sort(key=lambda one: (-(one.open or 0) - (one.parked or 0), one.group))
        return tuple(found[:MOST_GROUPS])


def notes_of(facts: JobFacts) -> JobFacts:
    """The same with its notes."""
    return replace(facts, notes=tuple(_notes(facts))[:_MOST_NOTES])


def _notes(facts: JobFacts) -> Iterator[str]:
    since_ms = facts.batch.ended_ms if facts.batch else facts.running_ms
    still = 0 if since_ms is None else (facts.now_ms - since_ms) // 1000
    if facts.kafka_away_ms is not None:
        away = (facts.now_ms - facts.kafka_away_ms) // 1000
        yield f"Kafka at {facts.kafka} does not answer, for {away} s: the job waits for it, and continues by itself."
    elif since_ms is None:
        if facts.now_ms - facts.started_ms >= _LONG_START_SECONDS * 1000:
            yield _starting(facts)
    elif still >= _STANDS_STILL_SECONDS:
        what = "No batch has ended" if facts.batch else "The first batch has not ended"
        yield f"{what} for {still} s: messages wait. 'checkback doctor' checks Kafka, the checkpoint and the machine."
    restart = "Undecided transactions stay open. Restart the job, or 'checkback checks' if checks.in_job is false"
    for effect, cause in (
        ("The access policy that was read before stays in force", facts.policy_wrong),
        ("Some transactions cannot be ended", facts.few_ops),
        (restart, facts.checks_stalled),
    ):
        if cause:
            yield f"{effect}: {cause}"
    for held in facts.held_back:
        yield (
            f"Partition {held.partition} of {held.topic} has been held back by an open Kafka transaction"
            f"{f' of {held.writer}' if held.writer else ''} for {held.seconds:.0f} s: what lies behind it waits."
        )
    behind = sum(one.records for one in facts.backlog or ())
    if behind >= _BEHIND:
        yield f"The job is {behind:,} records behind."
    for group in facts.groups:
        yield from _of_group(group, known=facts.checks_in_job)


def _starting(facts: JobFacts) -> str:
    said = f"The job is starting, for {(facts.now_ms - facts.started_ms) // 1000} s: nothing is taken in yet."
    under_way = next((step for step in reversed(facts.steps) if step.seconds is None), None)
    if under_way is None:
        return said
    return f"{said} Now, for {(facts.now_ms - under_way.began_ms) // 1000} s: {under_way.name}."


def _of_group(group: GroupFacts, *, known: bool) -> Iterator[str]:
    if group.barred:
        yield f"New half messages are rejected: {group.barred}. cb.rejected has them, also if they were committed."
    if known and group.waiting and not any(one.state == "well" for one in group.endpoints):
        why = next((one.reason for one in group.endpoints if one.reason), "it has announced none, or they are gone")
        number = "" if group.open is None else f"; {group.open:,} of its transactions are open"
        yield f"No check endpoint of group {group.group} answers ({why}){number}."
