"""The worst day of the producers: transactions of many groups open, nobody to ask, and then everybody is back at once.

1. A healthy group alone, at a steady rate.  2. Other groups open transactions, and their endpoints are away.  3. They
come back; half of one group's hang.  4. In the midst of the drain the job is killed (SIGKILL) and started again.
5. All is delivered, once; the checkpoint has time to become small.

The job is ``checkback run``, a process of its own with the check service in it.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from bench.checkpoint_watch import CheckpointWatch
from bench.memory import MemoryWatch, Peak
from bench.outage_endpoints import Endpoints, endpoints
from bench.outage_figures import (
    Asked,
    CheckRecords,
    Course,
    Times,
    asked,
    batch_seconds,
    delivery_times,
    drain_per_second,
)
from bench.outage_load import (
    HEALTHY,
    RETURNED_TOPIC,
    HealthyReader,
    Heartbeats,
    ReturnedReader,
    healthy_group,
    open_transactions,
    record_bytes,
)
from bench.running import RunningJob, Tell
from bench.workload import HALF_PARTITIONS, STATE_PARTITIONS, delivered_once, workplace
from checkback.exceptions import CheckbackError
from checkback.producing.delivery import DeliveryMode
from checkback.wire.protocol import GROUP, Topics

ENDPOINTS = 4
"""Of each group."""
_CHECK_INTERVAL_SECONDS = 30.0
_BACKOFF_MAX_SECONDS = 300.0
_ANSWER_TTL_SECONDS = 7200.0
_START_SECONDS = 180.0
_SHORTEST_WARM_UP_SECONDS = 30.0
_LONGEST_WARM_UP_SECONDS = 60.0  # batches get quicker for as long
_LONGEST_ALONE_SECONDS = 60.0
_LONGEST_SETTLE_SECONDS = 150.0
_KILL_FROM, _KILL_AT = 0.25, 0.5
"""When so much of all has been delivered: from the first on if all groups have been asked, else at the second."""
_DRAIN_SECONDS = 900.0
_DRAIN_PER_SECOND_AT_LEAST = 100
_LOOK_SECONDS = 10.0
_CLOSED_PORT = 1


@dataclass(frozen=True)
class Outage:
    """What to measure."""

    open_transactions: int = 100_000
    away_seconds: float = 300.0
    scale: float = 1.0
    """``check_interval``, ``unreachable_backoff_max`` and ``check_answer_ttl`` of the job are divided by this (1 s at
    least), so that a short time away holds as many rounds of checks as one that is so many times as long at the
    defaults."""
    groups: int = 4
    per_second: int = 50
    """Of the healthy group."""
    value_bytes: int = 256
    driver_memory: str = "2g"
    cores: int = 2
    delivery: DeliveryMode = DeliveryMode.JOB
    """Who delivers the healthy group's messages, those that need a check apart."""

    def settings(self) -> dict[str, str]:
        """The job's, but for places."""
        pauses = {"CHECK_INTERVAL": _CHECK_INTERVAL_SECONDS, "CHECK_INTERVAL_MAX": _CHECK_INTERVAL_SECONDS}
        pauses |= {"UNREACHABLE_BACKOFF_MAX": _BACKOFF_MAX_SECONDS, "CHECK_ANSWER_TTL": _ANSWER_TTL_SECONDS}
        scaled = {name: max(1000, round(1000 * seconds / self.scale)) for name, seconds in pauses.items()}
        return {
            "JOB__MASTER": f"local[{self.cores}]",
            "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
            "JOB__DRIVER_MEMORY": self.driver_memory,
            **({f"TRANSACTIONS__{name}": f"{ms}ms" for name, ms in scaled.items()} if self.scale != 1 else {}),
        }

    @property
    def names(self) -> list[str]:
        """Of the groups that are away; half of the last one's endpoints hang when they are back."""
        return [f"away{number}" for number in range(self.groups)]


@dataclass(frozen=True)
class OutageResult:
    """Times of the healthy group are in ms, from half message to delivery; memory is in MiB, of the job's processes."""

    open_transactions: int
    value_bytes: int
    away_seconds: float
    scale: float
    check_records_per_transaction: float
    check_records_per_transaction_while_away: float
    check_bytes: int
    """Written to ``cb.check``: keys, values, headers."""
    asked_after_seconds: dict[str, float | None]
    """Until each group was asked, from its endpoints' return."""
    drain_per_second: float
    drain_seconds: float
    """From the return until all was delivered, the SIGKILL included."""
    asked_again_percent_until_killed: float
    """Of the transactions that the endpoints were asked about until the SIGKILL."""
    asked_again_percent: float
    """Likewise in the end; what was on its way at the SIGKILL is asked again."""
    with_op: Times
    """The healthy group's transactions that have an op."""
    with_check: Times
    """Those that have none."""
    batch_seconds_p50: dict[str, float]
    batch_seconds_most: dict[str, float]
    open_bytes: int
    """Of the half messages that were left open: keys, values, headers."""
    checkpoint_bytes_before: int
    """At most, with the healthy group alone."""
    checkpoint_peak_bytes: int
    checkpoint_peak_over_open: float
    checkpoint_bytes_afterwards: int
    """150 s after the drain, or after as long as the endpoints were away: Spark keeps some versions."""
    first_new_delivery_after_kill_seconds: float
    peak_mib: float
    peak_java_mib: float
    peak_python_mib: float
    delivered_once: int

    def aims(self) -> dict[str, tuple[object, str]]:
        """The figures that there are aims for: what was measured, and the aim."""
        slowest = [seconds for seconds in self.asked_after_seconds.values() if seconds is not None]
        healthy = {
            f"healthy group with {what}, p99 to alone, {phase}": (ratio, "2 at most")
            for what, times in (("op", self.with_op), ("check", self.with_check))
            for phase, ratio in times.p99_to_alone.items()
            if phase in {"away", "drain"}
        }
        return {
            "check records per transaction": (self.check_records_per_transaction, "3 at most"),
            "a group that came back is asked after (s)": (max(slowest, default=None), "30 at most"),
            "drain (transactions/s)": (self.drain_per_second, "2,000 or more"),
            "asked again until the SIGKILL (%)": (self.asked_again_percent_until_killed, "under 1"),
            **healthy,
            "checkpoint at its peak over open bytes": (self.checkpoint_peak_over_open, "3 at most"),
            "SIGKILL in the drain: first new delivery (s)": (self.first_new_delivery_after_kill_seconds, "under 60"),
        }


def measure_outage(outage: Outage, tell: Tell = lambda _line: None) -> OutageResult:
    """Have it happen, and say how it went. ``tell`` hears of each step.

    Raises:
        CheckbackError: the job ended, something took far too long, or not each transaction was delivered once.
    """
    with (
        workplace(outage.cores, RETURNED_TOPIC) as place,
        tempfile.TemporaryDirectory(prefix="checkback-outage-") as folder,
        endpoints(outage.open_transactions // outage.groups + 1) as asking,
    ):
        scene = _Scene(outage, place.bootstrap_servers, Path(folder), asking, tell)
        return scene.play()


class _Scene:
    """One measurement in its course."""

    def __init__(self, outage: Outage, bootstrap_servers: str, folder: Path, asking: Endpoints, tell: Tell) -> None:
        self._outage = outage
        self._bootstrap_servers = bootstrap_servers
        self._folder = folder
        self._asking = asking
        self._tell = tell
        self._each = outage.open_transactions // outage.groups
        self._total = self._each * outage.groups
        self._course = Course()
        self._job: RunningJob
        self._healthy = healthy_group(outage.delivery, bootstrap_servers, outage.per_second)
        self._reader = HealthyReader(bootstrap_servers)
        self._returned = ReturnedReader(bootstrap_servers)
        self._heartbeats = Heartbeats(bootstrap_servers)
        self._watch = CheckpointWatch(folder / "checkpoint")
        self._peak = Peak()
        self._until_killed = Asked(0.0)
        self._open_bytes = 0

    def play(self) -> OutageResult:
        """All of it; see the module's text."""
        threads = (self._heartbeats, self._watch, self._reader, self._returned, self._healthy)
        self._heartbeats.announce(HEALTHY, self._asking.open(HEALTHY, ENDPOINTS))
        for thread in threads:
            thread.start()
        try:
            with self._running("first"):
                self._go_wrong()
                self._wait(self._in_the_drain, _DRAIN_SECONDS, "drained a part")
                self._kill()
            with self._running("second"):
                self._drain()
        finally:
            for thread in reversed(threads):
                thread.stop()
        return self._result()

    def _go_wrong(self) -> None:
        """Steps 1 to 3."""
        outage, course = self._outage, self._course
        self._wait(lambda: bool(self._reader.read), _START_SECONDS, "delivered a message")
        warm_up = min(_LONGEST_WARM_UP_SECONDS, max(_SHORTEST_WARM_UP_SECONDS, outage.away_seconds))
        self._pass_time(warm_up, "warming up")
        course.quiet = time.time()
        self._pass_time(min(_LONGEST_ALONE_SECONDS, outage.away_seconds), "the healthy group alone")
        course.opening = time.time()
        self._tell(f"opening {self._total} transactions")
        for group in outage.names:
            self._heartbeats.announce_once(group, [_CLOSED_PORT])  # it was there, and is not any more
        self._open_bytes = open_transactions(self._bootstrap_servers, outage.names, self._each, outage.value_bytes)
        course.away = time.time()
        self._pass_time(outage.away_seconds, "nobody answers for them")
        ports = {
            group: self._asking.open(group, ENDPOINTS - hanging, hanging)
            for group, hanging in [(name, ENDPOINTS // 2 if name == outage.names[-1] else 0) for name in outage.names]
        }
        course.back = time.time()
        for group, its in ports.items():
            self._heartbeats.announce(group, its)
        self._tell("the endpoints are back, half of one group's hang")

    def _in_the_drain(self) -> bool:
        delivered = self._returned.delivered / self._total
        if delivered < _KILL_FROM:
            return False
        return delivered >= _KILL_AT or None not in self._questions().after_seconds.values()

    def _kill(self) -> None:
        """Step 4."""
        self._tell(f"{self._returned.delivered} are delivered: SIGKILL of the job")
        self._until_killed = self._questions()
        self._course.killed = time.time()
        self._job.kill()

    def _drain(self) -> None:
        """Step 5."""
        course = self._course

        def delivers_again() -> bool:
            return any(self._reader.read.get(name) for name, sent in self._lately_sent() if sent > course.killed)

        self._wait(delivers_again, _START_SECONDS, "delivered anything new after the SIGKILL")
        course.recovered = time.time()
        self._tell(f"delivers again, {course.recovered - course.killed:.0f} s after the SIGKILL")
        limit = _DRAIN_SECONDS + self._total / _DRAIN_PER_SECOND_AT_LEAST
        self._wait(lambda: self._returned.delivered >= self._total, limit, "delivered all")
        course.drained = time.time()
        self._tell(f"all are delivered, {course.drained - course.back:.0f} s after the endpoints came back")
        self._pass_time(min(_LONGEST_SETTLE_SECONDS, self._outage.away_seconds), "waiting for the checkpoint")
        self._healthy.stop()
        self._wait(lambda: self._healthy.sent.keys() <= self._reader.read.keys(), _DRAIN_SECONDS, "delivered the rest")
        self._watch.look()

    def _lately_sent(self) -> list[tuple[str, float]]:
        return list(self._healthy.sent.items())[-5000:]

    @contextmanager
    def _running(self, name: str) -> Iterator[None]:
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": self._bootstrap_servers,
            "JOB__CHECKPOINT": str(self._folder / "checkpoint"),
            **self._outage.settings(),
        }
        with RunningJob(self._folder / name, settings) as self._job:
            memory = MemoryWatch(self._job.pid)
            memory.start()
            try:
                yield
            finally:
                self._peak = self._peak.or_more(memory.stop())

    def _pass_time(self, seconds: float, why: str) -> None:
        self._tell(f"{why}, {seconds:.0f} s")
        self._job.run_for(seconds)

    def _wait(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        self._job.wait_until(holds, seconds, what)

    def _result(self) -> OutageResult:
        outage, course = self._outage, self._course
        records = _check_records(self._bootstrap_servers, set(outage.names), course)
        questions = self._questions()
        deliveries = self._reader.deliveries(self._healthy.sent)
        peak_bytes = max(size.bytes for size in self._watch.sizes)
        return OutageResult(
            open_transactions=self._total,
            value_bytes=outage.value_bytes,
            away_seconds=outage.away_seconds,
            scale=outage.scale,
            check_records_per_transaction=round(records.records / self._total, 2),
            check_records_per_transaction_while_away=round(records.while_away / self._total, 2),
            check_bytes=records.bytes,
            asked_after_seconds=questions.after_seconds,
            drain_per_second=drain_per_second(self._returned.samples, course),
            drain_seconds=round(course.drained - course.back, 1),
            asked_again_percent_until_killed=self._until_killed.again_percent,
            asked_again_percent=questions.again_percent,
            with_op=delivery_times(deliveries, course, checked=False),
            with_check=delivery_times(deliveries, course, checked=True),
            batch_seconds_p50=batch_seconds(self._watch.batches, course, lambda found: float(np.percentile(found, 50))),
            batch_seconds_most=batch_seconds(self._watch.batches, course, max),
            open_bytes=self._open_bytes,
            checkpoint_bytes_before=max(size.bytes for size in self._watch.sizes if size.at < course.opening),
            checkpoint_peak_bytes=peak_bytes,
            checkpoint_peak_over_open=round(peak_bytes / self._open_bytes, 2),
            checkpoint_bytes_afterwards=self._watch.sizes[-1].bytes,
            first_new_delivery_after_kill_seconds=round(course.recovered - course.killed, 1),
            peak_mib=round(self._peak.tree, 1),
            peak_java_mib=round(self._peak.java, 1),
            peak_python_mib=round(self._peak.python, 1),
            delivered_once=delivered_once(self._bootstrap_servers, self._total, RETURNED_TOPIC),
        )

    def _questions(self) -> Asked:
        of = {group: self._asking.asked(group) for group in self._outage.names}
        return asked(
            {group: told.first_asked for group, told in of.items()},
            sum(told.asked for told in of.values()),
            sum(told.asked_again for told in of.values()),
            self._course,
        )


def _check_records(bootstrap_servers: str, groups: set[str], course: Course) -> CheckRecords:
    """Read all of ``cb.check``: what was written for these groups."""
    topic = Topics().check
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-check", **settings})
    places = [TopicPartition(topic, number, 0) for number in range(HALF_PARTITIONS)]
    ends = {place.partition: consumer.get_watermark_offsets(place, _LOOK_SECONDS)[1] for place in places}
    consumer.assign(places)
    found = CheckRecords()
    until = time.monotonic() + _DRAIN_SECONDS
    while any(at.offset < ends[at.partition] for at in consumer.position(places) if ends[at.partition]):
        if time.monotonic() > until:
            raise CheckbackError(f"{topic} could not be read to its end.")
        for message in consumer.consume(20_000, timeout=1):
            headers: list[tuple[str, bytes]] = message.headers() or []  # type: ignore[assignment]  # never a dict
            if dict(headers).get(GROUP, b"").decode() in groups:
                size = len(message.key() or b"") + record_bytes(message.value(), headers)
                found.add(message.timestamp()[1] / 1000, size, course)
    consumer.close()
    return found
