"""Transactions that fall due together: their producers have said nothing, and one process answers *commit* to all.

1. A warm-up: a group at a steady rate, one in ten of its transactions checked.  2. Waves, of which the first belongs to
the warm-up: half messages of one group are written at once, and no op; when their time-out has passed they are checked.
Every message must be there once.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.outage_endpoints import Endpoints, endpoints
from bench.outage_load import RETURNED_TOPIC, Heartbeats, ReturnedReader, open_transactions
from bench.running import RunningJob, Tell
from bench.starting.recover import job_settings, timed_start, trickle
from bench.workload import Workplace, delivered_once, workplace

_LIMIT_SECONDS = 300.0
_WARM_UP_PER_SECOND = 50


@dataclass(frozen=True)
class DueTogether:
    """What to measure."""

    transactions: int = 20_000
    """Of a wave."""
    waves: int = 3
    """Those that are timed."""
    value_bytes: int = 256
    warm_up_seconds: float = 45.0
    cores: int = 2


@dataclass(frozen=True)
class DueTogetherResult:
    """A figure for each wave; seconds are from the deadline of its last half message."""

    transactions: int
    half_of_all_seconds: list[float]
    all_seconds: list[float]
    """Until the last one could be read; RocketMQ 5.4 on the same kind of machine: 7 to 9.6."""
    asked_again: list[int]
    """Transactions that the endpoint was asked about more than once."""
    delivered_once: int


def measure_due_together(plan: DueTogether, tell: Tell = lambda _line: None) -> DueTogetherResult:
    """Run them.

    Raises:
        CheckbackError: the job ended, a wave took minutes, or not each message was there once.
    """
    with (
        workplace(plan.cores, RETURNED_TOPIC) as place,
        tempfile.TemporaryDirectory(prefix="checkback-due-") as folder,
        endpoints(plan.transactions) as asking,
        trickle(place.bootstrap_servers, _WARM_UP_PER_SECOND) as load,
        timed_start(Path(folder) / "job", job_settings(place, Path(folder)), load) as (job, _),
    ):
        job.run_for(plan.warm_up_seconds)
        load[0].stop()
        waves = _Waves(plan, place, asking, job)
        try:
            return waves.run(tell)
        finally:
            waves.stop()


class _Waves:
    """One after the other, on a job that is warm."""

    def __init__(self, plan: DueTogether, place: Workplace, asking: Endpoints, job: RunningJob) -> None:
        self._plan = plan
        self._servers = place.bootstrap_servers
        self._timeout = place.settings.transactions.timeout / 1000
        self._asking = asking
        self._job = job
        self._reader = ReturnedReader(place.bootstrap_servers)
        self._heartbeats = Heartbeats(place.bootstrap_servers)
        self._reader.start()
        self._heartbeats.start()

    def stop(self) -> None:
        """Read no more, and announce no more."""
        self._reader.stop()
        self._heartbeats.stop()

    def run(self, tell: Tell) -> DueTogetherResult:
        """The warm-up's wave, and then those that are timed."""
        plan, took = self._plan, []
        for number in range(plan.waves + 1):
            took.append(self._wave(number))
            tell(f"wave {number or 'of the warm-up'}: half after {took[-1][0]} s, all after {took[-1][1]} s")
        half, all_ = ([seconds[part] for seconds in took[1:]] for part in (0, 1))
        again = [self._asking.asked(_group(number)).asked_again for number in range(1, plan.waves + 1)]
        once = delivered_once(self._servers, plan.transactions * (plan.waves + 1), RETURNED_TOPIC)
        return DueTogetherResult(plan.transactions, half, all_, again, once)

    def _wave(self, number: int) -> tuple[float, float]:
        """Until half of it and all of it could be read, from its last deadline."""
        plan, reader = self._plan, self._reader
        self._heartbeats.announce(_group(number), self._asking.open(_group(number), 1))
        before = number * plan.transactions
        open_transactions(self._servers, [_group(number)], plan.transactions, plan.value_bytes)
        due = time.time() + self._timeout
        self._job.wait_until(
            lambda: reader.delivered >= before + plan.transactions, _LIMIT_SECONDS, f"decided {plan.transactions}"
        )
        half, all_ = (
            next(one.at for one in reader.samples if one.delivered >= before + part)
            for part in (plan.transactions // 2, plan.transactions)
        )
        return round(half - due, 1), round(all_ - due, 1)


def _group(number: int) -> str:
    return f"due{number}"
