"""What another worker gives: a job on Spark's own cluster works a backlog off with one worker of a core, and with two.

Kafka, the driver and Spark's master run beside the workers on this machine, and are not to be what holds them back: so
a control group gives each worker, its executors and their Python together, a share of a core, and the rest of the cores
is for the others.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.cost.job import costed_job
from bench.memory import tree_of
from bench.running import Tell
from bench.throughput import after_warm_up, rate_of, until_read
from bench.workload import delivered_once, workplace, write_backlog
from checkback.exceptions import ConfigurationError
from torture.local_spark import LocalSparkCluster

_PERIOD_MICROSECONDS = 100_000
_LIMIT_SECONDS = 600.0
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_GONE_SECONDS = 10.0


@dataclass(frozen=True)
class WorkersPlan:
    """What to measure."""

    transactions: int = 200_000
    """Those that are timed, at least."""
    warm_up: int = 300_000
    """Before them."""
    value_bytes: int = 256
    share: float = 0.4
    """Of a core, that each worker has."""
    runs: int = 2
    """With one worker and with two, in turn."""


@dataclass(frozen=True)
class WorkersResult:
    """Transactions per second of each run."""

    share_of_a_core: float
    one_worker: list[float]
    two_workers: list[float]
    ratios: list[float]
    """Of two workers to one, run by run."""


def measure_workers(plan: WorkersPlan, tell: Tell = lambda _line: None) -> WorkersResult:
    """Run them. Needs Linux, and the right to make control groups (root).

    Raises:
        CheckbackError: the job did not deliver each transaction exactly once, or not in ten minutes.
        ConfigurationError: control groups cannot be made here.
    """
    rates: dict[int, list[float]] = {1: [], 2: []}
    for run in range(1, plan.runs + 1):
        for workers, found in rates.items():
            found.append(_measure(plan, workers))
            tell(f"run {run}, {workers} of {len(rates)} workers: {found[-1]:,.0f} transactions a second")
    ratios = [round(two / one, 3) for one, two in zip(rates[1], rates[2], strict=True)]
    return WorkersResult(plan.share, rates[1], rates[2], ratios)


def _measure(plan: WorkersPlan, workers: int) -> float:
    total = plan.warm_up + plan.transactions
    spark = LocalSparkCluster(workers=workers, memory_megabytes=2048)
    with workplace() as place, tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder, spark:
        write_backlog(place.bootstrap_servers, total, plan.value_bytes)
        options = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "1g"}
        settings = {
            "JOB__MASTER": spark.url,
            "JOB__CHECKPOINT": f"file://{folder}/checkpoint",
            "JOB__SPARK_OPTIONS": json.dumps(options),
        }
        with _held(spark, plan.share), costed_job(place, Path(folder), settings=settings) as job:
            ended = until_read(job, total)
            job.wait_until(lambda: job.decided >= total, _LIMIT_SECONDS, f"decided {total} transactions")
        delivered_once(place.bootstrap_servers, total)
    return rate_of(after_warm_up(job.batches[:ended], plan.warm_up))


@contextmanager
def _held(spark: LocalSparkCluster, share: float) -> Iterator[None]:
    """Each worker with all that it starts has a share of a core, however many of its threads want to run."""
    groups = {number: _make_group(f"checkback-{os.getpid()}-{number}", share) for number in spark.pids}
    try:
        for number, group in groups.items():
            for member in tree_of(spark.pids[number]):
                (group / "cgroup.procs").write_text(str(member))
        yield
    finally:
        for group in groups.values():
            _remove(group)


def _make_group(name: str, share: float) -> Path:
    first_version = (_CONTROL_GROUPS / "cpu").is_dir()
    group = _CONTROL_GROUPS / ("cpu" if first_version else "") / name
    quota = int(share * _PERIOD_MICROSECONDS)
    try:
        group.mkdir()
        if first_version:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        raise ConfigurationError(
            f"The control group {group} cannot be made ({error.strerror}): this measurement needs Linux and root."
        ) from error
    return group


def _remove(group: Path) -> None:
    """Whoever is still in it goes back to where it came from."""
    deadline = time.monotonic() + _GONE_SECONDS
    while group.is_dir() and time.monotonic() < deadline:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (group.parent / "cgroup.procs").write_text(member)
        with suppress(OSError):
            group.rmdir()
