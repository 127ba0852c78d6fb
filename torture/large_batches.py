"""Fault runs with large batches: a backlog is one batch, and faults strike in the midst of it. ``checkback torture``.

The rounds of ``torture.schedule`` have batches of a few hundred messages: a worker dies between two of them, or before
its first rows are out. Here a batch is large enough that rows are on their way in every part of the pipe.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Self

import psutil

from streaming.batch.failpoints import Failpoint
from streaming.fairness.batch_size import FIRST_RECORDS, GROWTH
from torture import death
from torture.backlog import Backlog, BacklogWriter, Counting, Verdict
from torture.death import Order, Victim
from torture.ground import HALF_PARTITIONS, REAL_PARTITIONS, STATE_PARTITIONS, Ground
from torture.processes import JobProcess
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

TRANSACTIONS = 100_000
_SEGMENT_SIZE = 256
_SURE = 0.85
"""Of the segments that a state partition has on average, each has so many: an order for one more may never be due."""
_FAULTS_A_BATCH = 8
_SPARK = {
    # many pieces of rows are on their way at once
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # each of the batch's faults may fail a task
    "spark.task.maxFailures": "20",
}
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05
_HELD_SECONDS = 1.0
_GIVEN_UP_SECONDS = 30.0
"""Longer than a job that was told to stop waits for its batch."""


class Strike(StrEnum):
    """What is done in the midst of a batch."""

    STATE_WORKER = "the state's worker killed"
    STATE_WORKER_HELD = "the state's worker held, then killed"
    SINK_WORKER = "the sink's worker killed"
    STATE_RAISES = "the state function raises"
    ALL_WORKERS = "all Python workers killed"
    TASKS_CANCELLED = "the batch's tasks cancelled"
    EXECUTOR = "executor killed"
    DRIVER = "driver killed"
    STOPPED = "SIGTERM, the batch given up"


_DECK = (
    *[Strike.STATE_WORKER] * 5,
    *[Strike.STATE_WORKER_HELD] * 3,
    *[Strike.SINK_WORKER] * 4,
    *[Strike.STATE_RAISES] * 2,
    *[Strike.ALL_WORKERS] * 2,
    Strike.TASKS_CANCELLED,
    Strike.EXECUTOR,
    Strike.DRIVER,
)
"""Nineteen, and one in every second deck that takes half a minute: SIGTERM."""

_VICTIMS = {
    Strike.STATE_WORKER: Victim.WORKER,
    Strike.STATE_WORKER_HELD: Victim.WORKER_HELD,
    Strike.SINK_WORKER: Victim.SINK_WORKER,
    Strike.STATE_RAISES: Victim.FUNCTION,
    Strike.EXECUTOR: Victim.EXECUTOR,
    Strike.DRIVER: Victim.DRIVER,
}


@dataclass(frozen=True)
class LargeRound:
    """One fault; ``tenth`` is the part of the batch, 1 to 10, that a state partition has evaluated when it strikes."""

    number: int
    strike: Strike
    tenth: int

    def __str__(self) -> str:
        return f"{self.strike}, at {self.tenth} tenths of the batch"


def large_schedule(seed: int, executors: int) -> Iterator[LargeRound]:
    """Rounds without end: nineteen or twenty hold every fault, in an order and at tenths that the seed decides."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    for deck in count():
        strikes = [strike for strike in _DECK if executors or strike is not Strike.EXECUTOR]
        strikes += [Strike.STOPPED] if deck % 2 == 0 else []
        chance.shuffle(strikes)
        for strike in strikes:
            yield LargeRound(next(numbers), strike, chance.randrange(10) + 1)


@dataclass
class LargeReport:
    """A whole run."""

    seed: int
    executors: int
    rounds: list[str] = field(default_factory=list)
    backlogs: int = 0
    seconds: float = 0.0
    committed: int = 0
    verdict: str = ""
    defect: str = ""
    logs: str = ""

    @property
    def holds(self) -> bool:
        """Whether every message was delivered once, and no other."""
        return not self.defect and self.backlogs > 0


class LargeBatches:
    """A job, its broker, and backlogs; use it as a context manager. Nothing else runs: neither checks nor producers."""

    def __init__(self, ground: Ground, transactions: int) -> None:
        self._ground = ground
        self._transactions = transactions
        servers = ground.broker.bootstrap_servers
        self._writer = BacklogWriter(servers, HALF_PARTITIONS)
        self._counting = Counting(servers, REAL_PARTITIONS)
        self._numbers = count(1)
        self._job = self._start_job()
        self._grown: JobProcess | None = None

    def __enter__(self) -> Self:
        self._counting.start()
        return self

    def __exit__(self, *_: object) -> None:
        death.withdraw(self._ground.folder)
        death.open_gate(self._ground.folder)
        self._counting.stop()
        self._job.kill()
        self._writer.close()

    def run(self, rounds: list[LargeRound]) -> Verdict:
        """One backlog in one batch, each of the rounds in it, and what came of it.

        Raises:
            NotRecoveredError: the job did not do in time what it must.
        """
        backlog = self._whole_backlog()
        for number, this in enumerate(rounds):
            if not self._strike(this, backlog, first=number == 0):
                backlog = self._whole_backlog()
                self._strike(this, backlog, first=True)
        self._until(lambda: self._delivered(backlog), "not all was delivered", fail=False)
        self._until(self._counting.at_end, "the consumer did not come to the end")
        return self._counting.verdict(backlog.number)

    def _whole_backlog(self) -> Backlog:
        self._grow()
        return self._written(self._transactions)

    def _grow(self) -> None:
        """Have the job take in a whole backlog at once: a start reads little, then more after each full batch."""
        if self._grown is self._job:
            return
        limit = FIRST_RECORDS
        while limit < 2 * self._transactions:
            backlog = self._written(limit * 5 // 8)  # of two records each
            death.open_gate(self._ground.folder)
            self._until_delivered(backlog)
            limit *= GROWTH
        self._grown = self._job

    def _until_delivered(self, backlog: Backlog) -> None:
        self._until(lambda: self._delivered(backlog), "not all was delivered")

    def _written(self, transactions: int) -> Backlog:
        """A backlog that lies there whole before a batch reads the first of it: the gate is closed."""
        backlog = Backlog(next(self._numbers), transactions)
        self._counting.expect(backlog)
        death.close_gate(self._ground.folder)
        self._until(lambda: death.at_gate(self._ground.folder), "the job did not begin a batch")
        self._writer.write(backlog)
        return backlog

    def all_in_all(self) -> Verdict:
        """Of all backlogs together, when the job has ended and nothing can come any more."""
        self._job.terminate()
        if self._job.wait(_STOP_SECONDS) is None:
            raise NotRecoveredError("The job did not end when it was told to.")
        self._until(self._counting.at_end, "the consumer did not come to the end", supervised=False)
        total = Verdict(0, 0, leaked=self._counting.unknown)
        for one in self._counting.verdicts():
            for name in vars(total):
                setattr(total, name, getattr(total, name) + getattr(one, name))
        return total

    def _strike(self, this: LargeRound, backlog: Backlog, *, first: bool) -> bool:
        """Whether the batch was still there to be struck.

        It is not when the worker that had taken the order before died with its executor: then a job that is told to
        stop has ended its batch first.
        """
        folder = self._ground.folder
        segments = math.ceil(self._transactions / _SEGMENT_SIZE / STATE_PARTITIONS)
        after = max(1, math.floor(this.tenth / 10 * segments * _SURE))
        death.give(
            folder, Order(Failpoint.IN_STATE, _VICTIMS.get(this.strike, Victim.NOBODY), after, self._pause(this))
        )
        if first:
            death.open_gate(folder)
        try:
            self._until(lambda: death.carried_out(folder) or self._delivered(backlog), f"no batch came to '{this}'")
            struck = death.carried_out(folder)
        finally:
            death.withdraw(folder)
        if struck and this.strike in _BY_HARNESS:
            _BY_HARNESS[this.strike](self)
        return struck

    def _delivered(self, backlog: Backlog) -> bool:
        return not self._counting.verdict(backlog.number).lost

    def _pause(self, this: LargeRound) -> float:
        if this.strike is Strike.STOPPED:
            return _GIVEN_UP_SECONDS
        return 5.0 if this.strike in _BY_HARNESS else 0.0

    def _kill_held(self) -> None:
        time.sleep(_HELD_SECONDS)  # what it had written has been read: who waits for its rows waits now
        with suppress(psutil.NoSuchProcess):
            death.claimed_by(self._ground.folder).kill()

    def _kill_workers(self) -> None:
        for worker in self._job.workers():
            with suppress(psutil.NoSuchProcess):
                worker.kill()

    def _cancel(self) -> None:
        death.order_cancelling(self._ground.folder)

    def _stop(self) -> None:
        self._job.terminate()
        if self._job.wait(_STOP_SECONDS) is None:
            raise NotRecoveredError("The job did not end when it was told to.")

    def _until(self, holds: Callable[[], bool], otherwise: str, *, fail: bool = True, supervised: bool = True) -> None:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                if fail:
                    raise NotRecoveredError(f"Within {GIVE_UP_SECONDS:.0f} s {otherwise}.")
                return
            if supervised and self._job.exit_status is not None:
                self._job = self._start_job()
            time.sleep(_POLL_SECONDS)

    def _start_job(self) -> JobProcess:
        more = {
            "JOB__MAX_OFFSETS_PER_TRIGGER": str(10 * self._transactions),
            "JOB__SPARK_OPTIONS": json.dumps(_SPARK),
            "TRANSACTIONS__SEGMENT_SIZE": str(_SEGMENT_SIZE),
            "TRANSACTIONS__TIMEOUT": "10min",  # nobody is there to be asked
        }
        environment = {**self._ground.job_environment, **{f"CHECKBACK_{name}": value for name, value in more.items()}}
        folder = self._ground.folder
        return JobProcess(["torture.job", str(folder)], environment, folder / "job.log")


_BY_HARNESS: dict[Strike, Callable[[LargeBatches], None]] = {
    Strike.STATE_WORKER_HELD: LargeBatches._kill_held,  # noqa: SLF001  (its own methods, by name)
    Strike.ALL_WORKERS: LargeBatches._kill_workers,  # noqa: SLF001  (its own, by name)
    Strike.TASKS_CANCELLED: LargeBatches._cancel,  # noqa: SLF001  (its own, by name)
    Strike.STOPPED: LargeBatches._stop,  # noqa: SLF001  (its own, by name)
}


def strike_large_batches(
    ground: Ground, report: LargeReport, rounds: int, tell: Callable[[str], None], transactions: int = TRANSACTIONS
) -> None:
    """Run so many rounds, some in each batch, and judge each batch before the next."""
    schedule = large_schedule(report.seed, report.executors)
    with LargeBatches(ground, transactions) as running:
        try:
            while len(report.rounds) < rounds:
                these = [next(schedule) for _ in range(min(_FAULTS_A_BATCH, rounds - len(report.rounds)))]
                verdict = running.run(these)
                report.backlogs += 1
                report.rounds += [str(this) for this in these]
                for this in these:
                    tell(f"round {this.number}: {this}")
                tell(f"    {verdict.committed} committed, {verdict.delivered} delivered: {verdict}")
                if not verdict.holds:
                    report.defect = f"Rounds {these[0].number} to {these[-1].number}: {verdict}."
                    break
        except NotRecoveredError as error:
            report.defect = str(error)
        total = running.all_in_all()
    report.committed, report.verdict = total.committed, str(total)
    if not report.defect and not total.holds:
        report.defect = "Not all is as it was sent."
