"""A soak: a job at work for long, with something of everything, started again in the middle. What grows?

Each half's first third is left out: the JIT compiles, and caches fill. Java's heap is as large as it may become from
the start, and touched, so that its memory grows with what is beside the heap only. What is decided is forgotten after
a minute instead of an hour (``early_op_ttl``), so that what the state holds is settled by then.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.checkpoint_watch import CheckpointWatch
from bench.cost.job import CostedJob, costed_job
from bench.endpoint import commit_endpoint
from bench.lasting.sampling import Sampler
from bench.lasting.slopes import Points, Slope, slope_of
from bench.lasting.soak_load import Receipts, SoakLoad
from bench.running import Tell
from bench.workload import GROUP, REAL_TOPIC, Workplace, workplace
from checkback.consumer import ConsumerSettings, PushConsumer, StartAt
from checkback.exceptions import CheckbackError

LEFT_OUT = 1 / 3
_DRAIN_SECONDS = 180.0
_BATCH = "batch_seconds"

Series = dict[str, list[list[tuple[float, float]]]]
"""By figure: of each half its points, in s since the soak began."""


@dataclass(frozen=True)
class SoakPlan:
    """How long, and how much."""

    minutes: float = 20.0
    per_second: int = 1_000
    driver_memory: str = "2g"
    cores: int = 2
    sample_seconds: float = 5.0


@dataclass(frozen=True)
class SoakResult:
    """``slopes`` are of the samples that count, ``series`` are all samples."""

    minutes: float
    per_second: int
    transactions: int
    delivered: int
    delivered_again: int
    """More often than once, or though rolled back."""
    tried_again: int
    """Messages that the consumer wanted again."""
    batches: int
    restarted_after_seconds: float
    """From the job's being told to stop until the next one ran."""
    slopes: dict[str, Slope]
    series: Series


def measure_soak(plan: SoakPlan = SoakPlan(), tell: Tell = lambda _line: None) -> SoakResult:
    """Run it, and say what became of each figure.

    Raises:
        CheckbackError: the job ended, or not each transaction that was to be delivered was.
    """
    receipts = Receipts()
    with (
        workplace(plan.cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-soak-") as folder,
        commit_endpoint(GROUP) as asked,
        _load(place, plan.per_second, receipts) as load,
    ):
        soak = _Soak(plan, place, Path(folder), asked, tell)
        return soak.run(load, receipts)


class _Soak:
    """One in its course."""

    def __init__(self, plan: SoakPlan, place: Workplace, folder: Path, asked: Mapping[str, str], tell: Tell) -> None:
        self._plan = plan
        self._place = place
        self._folder = folder
        self._tell = tell
        self._began = time.time()
        self._series: Series = {}
        self._half_began: list[float] = []
        self._half_ended: list[float] = []
        java = f"-Xms{plan.driver_memory} -XX:+AlwaysPreTouch"
        options = {"spark.local.dir": str(folder / "local"), "spark.driver.defaultJavaOptions": java}
        self._settings = {
            **asked,
            "TRANSACTIONS__EARLY_OP_TTL": "1min",
            "JOB__DRIVER_MEMORY": plan.driver_memory,
            "JOB__SPARK_OPTIONS": json.dumps(options),
        }

    def run(self, load: SoakLoad, receipts: Receipts) -> SoakResult:
        """Both halves, and what is left after them."""
        watch = CheckpointWatch(self._folder / "checkpoint")
        watch.start()
        for half in (0, 1):
            with costed_job(self._place, self._folder, settings=self._settings) as job:
                self._tell(f"half {half + 1}: {self._plan.minutes / 2:g} minutes")
                self._watch_half(half, job)
                if half:
                    load.stop()
                    job.wait_until(lambda: not receipts.compared(load.sent)[1], _DRAIN_SECONDS, "delivered the rest")
        watch.stop()
        for half, (began, ended) in enumerate(zip(self._half_began, self._half_ended, strict=True)):
            for batch in watch.batches_between(began, ended):
                self._add(_BATCH, half, batch.ended, batch.ended - batch.began)
        return self._result(load, receipts, len(watch.batches))

    def _watch_half(self, half: int, job: CostedJob) -> None:
        folders = {name: self._folder / name for name in ("checkpoint", "local")}
        sampler = Sampler(job.pid, folders, lambda: job.used, self._plan.sample_seconds)
        self._half_began.append(time.time())
        sampler.start()
        job.run_for(30 * self._plan.minutes)
        self._half_ended.append(time.time())
        for sample in sampler.stop():
            for name, figure in sample.figures.items():
                self._add(name, half, sample.at, figure)

    def _add(self, name: str, half: int, at: float, figure: float) -> None:
        self._series.setdefault(name, [[], []])[half].append((round(at - self._began, 2), round(figure, 4)))

    def _result(self, load: SoakLoad, receipts: Receipts, batches: int) -> SoakResult:
        delivered, missing, again = receipts.compared(load.sent)
        if missing:
            raise CheckbackError(f"Of {load.sent} transactions {missing} were not delivered.")
        begins = [began - self._began + LEFT_OUT * 30 * self._plan.minutes for began in self._half_began]
        counted = {
            name: [_since(begin, points) for begin, points in zip(begins, halves, strict=True)]
            for name, halves in self._series.items()
        }
        return SoakResult(
            minutes=self._plan.minutes,
            per_second=self._plan.per_second,
            transactions=load.sent,
            delivered=delivered,
            delivered_again=again,
            tried_again=receipts.tried_again,
            batches=batches,
            restarted_after_seconds=round(self._half_began[1] - self._half_ended[0], 1),
            slopes={name: slope for name, halves in counted.items() if (slope := slope_of(halves)) is not None},
            series=self._series,
        )


def _since(begin: float, points: Points) -> Points:
    return [point for point in points if point[0] >= begin]


@contextmanager
def _load(place: Workplace, per_second: int, receipts: Receipts) -> Iterator[SoakLoad]:
    load = SoakLoad(place.bootstrap_servers, per_second)
    consumer = PushConsumer(
        place.bootstrap_servers,
        "soak",
        receipts.take,
        REAL_TOPIC,
        settings=ConsumerSettings(start_at=StartAt.FIRST),
    )
    with consumer:
        load.start()
        try:
            yield load
        finally:
            load.stop()
