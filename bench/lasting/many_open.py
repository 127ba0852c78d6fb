"""What many open transactions cost a job that has little else to do: time, memory, bytes, and its next start.

1. They are opened, and nothing decides them.  2. A trickle of others: small batches.  3. Nothing: idle batches.
4. The job is stopped and started again. For each number: a Kafka and a job of its own.
"""

import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.checkpoint_watch import CheckpointWatch, folder_content
from bench.cost.figures import seconds_without_jit
from bench.cost.job import CostedJob, costed_job
from bench.latency import LatencyResult, Rate, latency_of
from bench.memory import MemoryWatch, Peak
from bench.outage_figures import Batch
from bench.outage_load import RETURNED_TOPIC, open_transactions
from bench.running import Tell
from bench.starting.recover import job_settings, timed_start, trickle
from bench.workload import Workplace, workplace
from checkback.exceptions import CheckbackError

_READ_PER_SECOND_AT_LEAST = 1_000
_LIMIT_SECONDS = 300.0
_GROUP = "left-open"
_RATE = Rate(50, 60, 30)


@dataclass(frozen=True)
class OpenPlan:
    """How each number is measured."""

    value_bytes: int = 256
    rate: Rate = _RATE
    """Of the small batches; idle ones are looked at for as long."""
    driver_memory: str = "2g"
    cores: int = 2


@dataclass(frozen=True)
class OpenResult:
    """Of one number. CPU time is the job's, without the JIT; memory and bytes are those of step 3, in MiB."""

    open_transactions: int
    idle_batch_seconds_p50: float
    """From the writing of its offsets to its commit."""
    idle_batch_seconds_most: float
    idle_batch_cpu_ms: float
    small_batch_seconds_p50: float
    small_batch_seconds_most: float
    small_batch_cpu_ms: float
    small_batch_latency_p50_ms: float
    small_batch_latency_p99_ms: float
    java_mib: float
    """At most, as the next one."""
    python_mib: float
    checkpoint_mib: float
    local_mib: float
    """Of Spark's scratch folder, where the state is open."""
    running_after_seconds: float
    """From the start of the process until it says "Running"; the job before was stopped, not killed."""
    delivers_after_seconds: float
    """Likewise until a message can be read whose transaction began after the start."""


def measure_open(
    numbers: Sequence[int], plan: OpenPlan = OpenPlan(), tell: Tell = lambda _line: None
) -> list[OpenResult]:
    """Measure with so many open ones each.

    Raises:
        CheckbackError: the job ended, or did not do its work in time.
    """
    results = []
    for number in numbers:
        with (
            workplace(plan.cores, RETURNED_TOPIC) as place,
            tempfile.TemporaryDirectory(prefix="checkback-open-") as folder,
        ):
            results.append(_measured(number, plan, place, Path(folder), tell))
    return results


def _measured(number: int, plan: OpenPlan, place: Workplace, folder: Path, tell: Tell) -> OpenResult:
    settings = job_settings(place, folder) | {
        "TRANSACTIONS__TIMEOUT": "1d",  # nobody is asked for them meanwhile
        "JOB__DRIVER_MEMORY": plan.driver_memory,
        "JOB__SPARK_OPTIONS": json.dumps({"spark.local.dir": str(folder / "local")}),
    }
    with costed_job(place, folder, settings=settings) as job:
        tell(f"{number}: opening them")
        open_transactions(place.bootstrap_servers, [_GROUP], number, plan.value_bytes, os.urandom)
        limit = _LIMIT_SECONDS + number / _READ_PER_SECOND_AT_LEAST
        job.wait_until(lambda: job.sum("half") >= number, limit, f"read {number} half messages")
        tell(f"{number}: small batches, then idle ones")
        watched = _Watched(folder / "checkpoint")
        small = watched.small_batches(job, place.bootstrap_servers, plan.rate)
        watched.idle_batches(job, plan.rate.seconds)
        checkpoint, local = (folder_content(folder / name).bytes for name in ("checkpoint", "local"))
    tell(f"{number}: stopped, and started again")
    with (
        trickle(place.bootstrap_servers, plan.rate.per_second) as load,
        timed_start(folder / "output-again", settings, load) as (_, start),
    ):
        pass
    idle, small_batches = _times(watched.idle), _times(watched.small)
    return OpenResult(
        open_transactions=number,
        idle_batch_seconds_p50=idle.p50,
        idle_batch_seconds_most=idle.most,
        idle_batch_cpu_ms=watched.idle_cpu_ms,
        small_batch_seconds_p50=small_batches.p50,
        small_batch_seconds_most=small_batches.most,
        small_batch_cpu_ms=small.cost.without_jit_ms_per_batch,
        small_batch_latency_p50_ms=small.p50_ms,
        small_batch_latency_p99_ms=small.p99_ms,
        java_mib=watched.peak.java,
        python_mib=watched.peak.python,
        checkpoint_mib=round(checkpoint / 2**20, 1),
        local_mib=round(local / 2**20, 1),
        running_after_seconds=start.running,
        delivers_after_seconds=start.delivers,
    )


class _Watched:
    """Steps 2 and 3, and what was seen in them."""

    def __init__(self, checkpoint: Path) -> None:
        self.small: list[Batch] = []
        self.idle: list[Batch] = []
        self.idle_cpu_ms = 0.0
        self.peak = Peak()
        self._checkpoint = checkpoint

    def small_batches(self, job: CostedJob, bootstrap_servers: str, rate: Rate) -> LatencyResult:
        """Step 2."""
        watch = CheckpointWatch(self._checkpoint)
        watch.start()
        small = latency_of(job, bootstrap_servers, rate)
        watch.stop()
        self.small = watch.batches_between(time.time() - rate.seconds, time.time())
        return small

    def idle_batches(self, job: CostedJob, seconds: float) -> None:
        """Step 3."""
        watch, memory = CheckpointWatch(self._checkpoint), MemoryWatch(job.pid)
        began, before = time.time(), job.used
        watch.start()
        memory.start()
        job.run_for(seconds)
        self.peak = memory.stop().rounded()
        watch.stop()
        self.idle = watch.batches_between(began, time.time())
        self.idle_cpu_ms = round(1000 * seconds_without_jit(before, job.used) / max(1, len(self.idle)), 1)


class _Times(NamedTuple):
    """Of batches, in s."""

    p50: float
    most: float


def _times(batches: Sequence[Batch]) -> _Times:
    if not batches:
        raise CheckbackError("No batch began and ended while batches were timed.")
    seconds = [batch.ended - batch.began for batch in batches]
    return _Times(round(float(np.median(seconds)), 3), round(max(seconds), 3))
