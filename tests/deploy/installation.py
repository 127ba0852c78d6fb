"""Installations of Checkback of which only the metrics are real: those of a job and of its check service, filled with
what batches report and groups come to.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from checkback.consumer import MessageCounts
from checkback.consumer import TopicPartition as ConsumerPlace
from checkback.consumer.metrics import Figures, PartitionFigures, collector_of
from checkers.facts import EndpointStanding, GroupStanding
from checkers.metrics import CheckMetrics
from conf import Settings
from state import SUM, Tallies, Tally
from status_page.facts import BatchFacts, PartitionBacklog
from streaming.batch.batch import BatchReport
from streaming.fairness.held_back import PartitionId
from streaming.observing.metrics import JobMetrics, KeptNow, OpenNow, tell_limits
from streaming.observing.progress import BatchProgress

PHASES = ("ask Kafka for its ends", "plan", "write offsets", "get batch", "evaluate and write", "note the end")
WELL = EndpointStanding("http://shop:8080/check", "well", 1.0, "")
SKIPPED = EndpointStanding("http://shop:8080/check", "skipped", 30.0, "it refuses the connection")


@dataclass(frozen=True)
class Reading:
    """What a consumer of the group points comes to with each batch."""

    done: int = 40
    dead: int = 0
    lag: int = 60
    lag_grows: int = 0
    """By so many messages with each batch."""

    def after(self, batches: int) -> Figures:
        """How it stands then."""
        lag = self.lag + self.lag_grows * batches
        orders = PartitionFigures(ConsumerPlace("orders", 0), position=7, lag=lag, span=9, held=9)
        counts = MessageCounts(done=self.done * batches, dead=self.dead * batches)
        return Figures("points", [orders], {"orders": counts})


@dataclass(frozen=True)
class Doing:
    """What each batch of an installation does, and how it stands after that. By itself: the demo."""

    counts: Mapping[str, int] = field(
        default_factory=lambda: {"half": 50, "op": 45, "applied": 45, "committed": 40, "rolled_back": 9, "checked": 5}
    )
    checks: Mapping[str, int] = field(
        default_factory=lambda: {"checked": 5, "check_commit": 3, "check_rollback": 1, "check_unknown": 1}
    )
    """Of the group shop."""
    reasons: Mapping[tuple[str, str], int] = field(default_factory=dict)
    open_now: tuple[OpenNow, ...] = (OpenNow("shop", "orders", 10, 3.0),)
    kept: tuple[KeptNow, ...] = (KeptNow("shop", 4_000, 0, 0),)
    endpoints: tuple[EndpointStanding, ...] = (WELL,)
    ended_seconds_ago: float = 0.0
    backlog: int = 400
    backlog_grows: int = 0
    """By so many records with each batch."""
    held_back_seconds: float = 0.0
    unanswered_seconds: float = 0.0
    """For how long the check service has answered no check."""
    state_bytes: int = 90_000
    executors: tuple[int, ...] = (2,)
    """After each batch; the last of them from then on."""
    published: Mapping[str, int] = field(default_factory=dict)
    postponed: int = 0
    lanes: int = 0
    """Settled, of each a rollback was answered though it had delivered."""
    refused: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """By the access policy: group, topic and reason."""
    policy_wrong: bool = False
    reading: Reading = Reading()


class Installation:
    """Give it batches; Prometheus, or whoever asks, gets ``registry``."""

    def __init__(self, name: str, doing: Doing) -> None:
        self._doing = doing
        self._batches = 0
        self._metrics = JobMetrics(name, self._stands)
        self.registry = self._metrics.registry
        tell_limits(self.registry, Settings())
        self._checks = CheckMetrics(self.registry, lambda: {"shop": GroupStanding(3, 1, doing.endpoints)})
        for partition in range(2):
            self._metrics.held_back(PartitionId("cb.op", partition), 0.0)
        self.registry.register(collector_of(self))

    def figures(self) -> Figures:
        """Of its consumer, which in earnest is a process of its own."""
        return self._doing.reading.after(self._batches)

    def batch(self) -> None:
        """One batch has ended."""
        self._batches += 1
        doing = self._doing
        self._metrics.observe(
            BatchReport(
                batch=self._batches,
                written=sum(doing.counts.values()),
                skipped_partitions=0,
                counts=Counter(doing.counts),
                published=Counter(doing.published),
                reasons=Counter(doing.reasons),
                refused=Counter(doing.refused),
                tallies=self._tallies(),
                seconds=0.4,
            )
        )
        self._metrics.progress(self._progress())
        self._metrics.executors(doing.executors[min(self._batches, len(doing.executors)) - 1])
        self._metrics.held_back(PartitionId("cb.op", 1), doing.held_back_seconds)
        self._metrics.unanswered(doing.unanswered_seconds)
        self._ask_endpoints()

    def _stands(self) -> None:
        self._metrics.stands(self._doing.open_now, self._doing.kept)
        self._metrics.state_bytes(self._doing.state_bytes)
        self._metrics.policy_wrong(wrong=self._doing.policy_wrong)

    def _tallies(self) -> Tallies:
        waits = {Tally(name, "", 40): 9 for name in ("decision", "delivery", "timer_late")}
        sums = {Tally(f"{name}_ms", "", SUM): 5_000 for name in ("decision", "delivery", "timer_late")}
        return Tallies(
            {**{Tally(name, "shop", 0): number for name, number in self._doing.checks.items()}, **waits, **sums}
        )

    def _progress(self) -> BatchProgress:
        doing = self._doing
        ended_ms = int((time.time() - doing.ended_seconds_ago) * 1000)
        facts = BatchFacts(self._batches, ended_ms, 0.4, dict.fromkeys(PHASES, 0.06), sum(doing.counts.values()))
        behind = doing.backlog + doing.backlog_grows * self._batches
        self._metrics.backlog(PartitionBacklog(topic, 0, behind // 2) for topic in ("cb.half", "cb.op"))
        return BatchProgress(facts, {}, 7)

    def _ask_endpoints(self) -> None:
        for result, number in self._doing.checks.items():
            for _ in range(number if result != "checked" else 0):
                self._checks.answered("shop", result.removeprefix("check_"))
                self._checks.asked("shop", 0.02)
        for _ in range(self._doing.postponed):
            self._checks.postponed("shop")
        for _ in range(self._doing.lanes):
            self._checks.settled("shop", "settled")
            self._checks.contradicted("shop")
            self._checks.copied("shop")
