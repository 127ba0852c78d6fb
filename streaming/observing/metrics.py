"""The job's metrics, for Prometheus. ``docs/metrics.md`` lists them; it is made from here."""

import threading
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.registry import Collector

from checkback.version import __version__
from conf import Settings
from state import REST, Tallies
from status_page.facts import PartitionBacklog
from streaming.batch.batch import SIZES, BatchReport
from streaming.fairness.held_back import PartitionId
from streaming.observing.labels import MOST, OTHER, Labels, kind_of
from streaming.observing.progress import BatchProgress
from streaming.observing.waits import BATCH_BUCKETS, Waits

_CHECKS = {
    "checked": "asked",
    "check_commit": "commit",
    "check_rollback": "rollback",
    "check_unknown": "unknown",
    "check_unreachable": "unreachable",
}
EVENTS = (
    "half",
    "retried",
    "applied",
    "without_effect",
    "duplicate",
    "rejected",
    "op",
    "conflict",
    "unknown",
    "check_unknown",
    "check_unreachable",
    "committed",
    "rolled_back",
    "delayed",
    "parked",
    "resumed",
    "abandoned",
    "held",
    "undeliverable",
    "redelivered",
    "by_lane",
    "checked",
    "malformed",
    "gone",
    "cut",
)
"""Counts of a batch that say what happened; docs/semantics.md says what each is of."""
_REASONS = {
    "parked": "Messages left to operators",
    "held": "Committed messages that their topics did not take now",
    "rejected": "Half messages and ops that were not taken",
}


class OpenNow(NamedTuple):
    """Undecided transactions of one group for one real topic."""

    group: str
    topic: str
    number: int
    oldest_seconds: float


class KeptNow(NamedTuple):
    """What one group has under way."""

    group: str
    open_bytes: int
    delayed: int
    parked: int


class JobMetrics:
    """What the job has done since it started, and how it stands. Bounded: no label has more than 200 values.

    ``refresh`` is called whenever Prometheus asks: it is to call :meth:`stands`.
    """

    def __init__(self, job: str, refresh: Callable[[], None] = lambda: None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # it has no types; created series would double all others
        self.registry = registry = CollectorRegistry()
        registry.register(_Refresh(refresh))  # the first, so that the others say how it stands at that moment
        self._groups = Labels()
        self._told: set[tuple[str, str]] = set()
        self._opened: set[tuple[str, str]] = set()
        """Groups and topics of which some were open after a batch since somebody has asked."""
        self._keeping: set[str] = set()
        self._standing_lock = threading.Lock()
        info = Gauge("checkback_job_info", "1, with the job's name and version", ["name", "version"], registry=registry)
        info.labels(job, __version__).set(1)
        self._events = Counter(
            "checkback_events", "What happened to half messages and ops, by event", ["event"], registry=registry
        )
        for event in EVENTS:  # there with 0: an increase from nothing is none to Prometheus
            self._events.labels(event)
        self._checks = Counter(
            "checkback_checks",
            "Checks, by producer group and result; asked: written to the check topic, or asked again after unreachable",
            ["group", "result"],
            registry=registry,
        )
        self._given_back = Counter(
            "checkback_check_attempts_given_back",
            "Checks for which nobody could be asked: they use up no attempt",
            registry=registry,
        )
        self._by_reason = {
            what: Counter(f"checkback_{what}", f"{said}, by reason", ["reason"], registry=registry)
            for what, said in _REASONS.items()
        }
        self._refused = Counter(
            "checkback_refused",
            "Records that the access policy refuses, by producer group and real topic",
            ["group", "topic"],
            registry=registry,
        )
        self._refused_pairs = Labels()
        self._policy_wrong = Gauge(
            "checkback_access_policy_wrong",
            "1 while the file of access.policy cannot be used, and the policy before it stays in force",
            registry=registry,
        )
        self._records = Counter("checkback_records_written", "Records written to Kafka", registry=registry)
        self._published = Counter(
            "checkback_rows_published", "Rows written to tables, by destination", ["destination"], registry=registry
        )
        self._skipped = Counter(
            "checkback_partitions_skipped",
            "State partitions of a repeated batch that were in Kafka already",
            registry=registry,
        )
        self._held_back = Gauge(
            "checkback_partition_held_back_seconds",
            "For how long somebody's open Kafka transaction has hidden what lies behind it",
            ["topic", "partition"],
            registry=registry,
        )
        self._unanswered = Gauge(
            "checkback_checks_unanswered_seconds",
            "For how long checks of a partition have waited without the check service answering any, the most of all",
            registry=registry,
        )
        self._open = Gauge(
            "checkback_open_transactions",
            "Undecided transactions, by producer group and real topic",
            ["group", "topic"],
            registry=registry,
        )
        self._oldest = Gauge(
            "checkback_oldest_open_seconds",
            "Age of the oldest undecided transaction, by producer group and real topic",
            ["group", "topic"],
            registry=registry,
        )
        self._kept = {
            name: Gauge(f"checkback_{name}", f"{said}, by producer group", ["group"], registry=registry)
            for name, said in (
                ("open_bytes", "Bytes of undecided half messages"),
                ("delayed_messages", "Committed messages that wait for their time"),
                ("parked_messages", "Messages that wait for an operator"),
            )
        }
        started = Gauge("checkback_start_timestamp_seconds", "When the job was started, since 1970", registry=registry)
        started.set_to_current_time()
        self._running = _LateGauge(
            "checkback_running_timestamp_seconds",
            "When the first batch could be begun, since 1970; none before that",
            registry=registry,
        )
        self._executors = _Executors(registry)
        self._batches = _BatchMetrics(registry)
        self._waits = Waits()
        registry.register(self._waits)

    def held_back(self, place: PartitionId, seconds: float) -> None:
        """For how long a partition that the job reads has been held back; 0 when it is not."""
        self._held_back.labels(place.topic, str(place.partition)).set(seconds)

    def unanswered(self, seconds: float) -> None:
        """For how long checks have waited without an answer; 0 when they do not."""
        self._unanswered.set(seconds)

    def executors(self, number: int) -> None:
        """How many of them the job has now, on a cluster."""
        self._executors.tell(number)

    def observe(self, report: BatchReport) -> None:
        """Add what one batch did."""
        for event, number in report.counts.items():
            if event not in SIZES:
                self._events.labels(event).inc(number)
        self._given_back.inc(report.counts["check_unreachable"])
        self._count_checks(report.tallies)
        for (what, reason), number in report.reasons.items():
            self._by_reason[what].labels(kind_of(reason)).inc(number)
        for (group, topic, _), number in report.refused.items():
            told_apart = self._refused_pairs.of(f"{topic} {group}") != OTHER
            self._refused.labels(*((group, topic) if told_apart else (OTHER, OTHER))).inc(number)
        self._records.inc(report.written)
        for destination, number in report.published.items():
            self._published.labels(destination).inc(number)
        self._skipped.inc(report.skipped_partitions)
        with self._standing_lock:
            for pairs in report.still_open.values():
                if len(self._opened) < MOST:
                    self._opened.update(pairs)
        self._waits.add(report.tallies, report.seconds)

    def progress(self, progress: BatchProgress) -> None:
        """Add what Spark says of a batch that has ended."""
        self._batches.add(progress)

    def policy_wrong(self, *, wrong: bool) -> None:
        """Whether the policy file as it is now is not in force."""
        self._policy_wrong.set(wrong)

    def running(self) -> None:
        """Batches are begun from now on."""
        self._running.set_to_current_time()

    def backlog(self, found: Iterable[PartitionBacklog] | None) -> None:
        """What is not read yet, by partition; None: that is not known."""
        self._batches.tell_backlog(found)

    def state_bytes(self, size: int) -> None:
        """So much is stored."""
        self._batches.state.set(size)

    def stands(self, open_now: Iterable[OpenNow] | None, kept: Iterable[KeptNow]) -> None:
        """How it stands now, those with most first; None: what is open is not known."""
        with self._standing_lock:
            if open_now is not None:
                self._stands_by_topic(list(open_now))
        summed: dict[str, Counts[str]] = {}
        for number, (group, size, delayed, parked) in enumerate(kept):
            found = summed.setdefault(group if number < MOST else OTHER, Counts())
            found.update({"open_bytes": size, "delayed_messages": delayed, "parked_messages": parked})
        with self._standing_lock:  # two may ask at once
            for name, gauge in self._kept.items():
                for group, numbers in summed.items():
                    gauge.labels(group).set(numbers[name])
                for group in self._keeping - summed.keys():
                    gauge.remove(group)
            self._keeping = set(summed)

    def _stands_by_topic(self, open_now: Sequence[OpenNow]) -> None:
        numbers: Counts[tuple[str, str]] = Counts()
        oldest: dict[tuple[str, str], float] = {}
        for place, (group, topic, number, seconds) in enumerate(open_now):
            key = (group, topic) if place < MOST and group else (OTHER, OTHER)
            numbers[key] += number
            oldest[key] = max(seconds, oldest.get(key, 0.0))
        # what was open only between two scrapes is there with 0: to Prometheus what has no series is nothing, and not 0
        self._told |= self._opened - {REST, *((one.group, one.topic) for one in open_now)}
        self._opened.clear()
        for key in self._told - numbers.keys():
            self._open.labels(*key).set(0)
            self._oldest.labels(*key).set(0)
        if len(self._told) > 10 * MOST:
            self._open.clear()
            self._oldest.clear()
            self._told = set()
        self._told |= numbers.keys()
        for key, number in numbers.items():
            self._open.labels(*key).set(number)
            self._oldest.labels(*key).set(oldest[key])

    def _count_checks(self, tallies: Tallies) -> None:
        for tally, number in tallies.items():
            if tally.name in _CHECKS:
                group = self._groups.of(tally.group)
                for result in _CHECKS.values():
                    self._checks.labels(group, result)  # all are there once the group is
                self._checks.labels(group, _CHECKS[tally.name]).inc(number)


class _Refresh(Collector):
    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        self._refresh()
        return iter(())


class _LateGauge(Gauge):
    """Has no sample before it is set: 0 would be wrong."""

    _is_set = False

    def set(self, value: float) -> None:
        super().set(value)
        self._is_set = True

    def collect(self) -> Iterable[Metric]:
        return super().collect() if self._is_set else []


class _Executors:
    def __init__(self, registry: CollectorRegistry) -> None:
        what = "on a cluster; not there for a job on one machine"
        self._now = _LateGauge("checkback_executors", f"Executors that the job has {what}", registry=registry)
        self._most = _LateGauge(
            "checkback_executors_most", f"The most executors that this run of the job has had {what}", registry=registry
        )
        self._before = 0

    def tell(self, number: int) -> None:
        self._before = max(self._before, number)
        self._most.set(self._before)
        self._now.set(number)


class _BatchMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "checkback_batch_seconds", "Duration of batches", buckets=BATCH_BUCKETS, registry=registry
        )
        self._phases = Counter(
            "checkback_batch_phase_seconds", "Time spent in batches, by phase", ["phase"], registry=registry
        )
        self._input = Counter("checkback_records_read", "Records read from half and op topic", registry=registry)
        self._batch = _LateGauge("checkback_batch", "Number of the last batch that has ended", registry=registry)
        self._ended = _LateGauge(
            "checkback_batch_end_timestamp_seconds",
            "When the last batch ended, since 1970; none before the first has",
            registry=registry,
        )
        self._backlog = Gauge(
            "checkback_backlog_records",
            "Records of a half or op partition that are not read yet",
            ["topic", "partition"],
            registry=registry,
        )
        self._segments = _LateGauge("checkback_state_segments", "Segments that have state", registry=registry)
        self.state = _LateGauge("checkback_state_bytes", "Bytes of state, as it is stored", registry=registry)

    def add(self, progress: BatchProgress) -> None:
        facts = progress.facts
        self._seconds.observe(facts.seconds)
        for phase, seconds in facts.phases.items():
            self._phases.labels(phase.replace(" ", "_")).inc(seconds)
        self._input.inc(facts.records)
        self._batch.set(facts.number)
        self._ended.set(facts.ended_ms / 1000)
        self._segments.set(progress.segments)

    def tell_backlog(self, found: Iterable[PartitionBacklog] | None) -> None:
        if found is None:
            self._backlog.clear()
            return
        for one in found:
            self._backlog.labels(one.topic, str(one.partition)).set(one.records)


def tell_limits(registry: CollectorRegistry, settings: Settings) -> None:
    """Register them; they hold as long as the job runs."""
    quotas, job = settings.quotas, settings.job
    for name, said, value in (
        ("quota_open_transactions", "Undecided transactions that a producer group may have", quotas.open),
        ("quota_open_bytes", "Bytes of undecided half messages that a producer group may have", quotas.open_bytes),
        ("quota_delayed_messages", "Messages waiting for their time that a producer group may have", quotas.delayed),
        ("quota_parked_messages", "Messages waiting for an operator that a producer group may have", quotas.parked),
        ("age_limit_seconds", "Age at which an undecided transaction is parked", settings.transactions.age_limit / 1e3),
        ("driver_memory_bytes", "Memory of the driver; above a quarter of it, state is slow", job.driver_memory_bytes),
    ):
        Gauge(f"checkback_{name}", said, registry=registry).set(value)
