"""A backlog of millions of records: the job as a process of its own, and the memory it takes to work them off."""

import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.memory import MemoryWatch
from bench.running import RunningJob
from bench.workload import STATE_PARTITIONS, delivered_once, workplace, write_backlog
from checkback.exceptions import CheckbackError

_RECORDS_PER_SECOND_AT_LEAST = 1_000
_START_SECONDS = 300.0
_BATCH = re.compile(r"^.* INFO +batch \d+: \d+ written(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class BacklogResult:
    """Memory in MiB, of the driver's process and all that it started; pages shared by several count once."""

    records: int
    """Half messages and ops."""
    seconds: float
    """From the start of the process until the last message was committed, start-up and cold batches included."""
    records_per_second: float
    batches: int
    driver_memory: str
    peak_mib: float
    peak_java_mib: float
    peak_python_mib: float
    checked: int
    """Checks asked though an op was in the log."""
    most_ops_waiting: int
    """Ops that were read before their half message, at most after a batch."""
    rejected: int
    delivered_once: int
    value_bytes: int


def measure_backlog(
    records: int = 5_000_000, value_bytes: int = 256, driver_memory: str = "2g", cores: int = 2
) -> BacklogResult:
    """Write committed transactions, half of the records half messages and half ops, then start the job on them.

    Raises:
        CheckbackError: the job ended, took far too long, or did not deliver each transaction exactly once.
    """
    transactions = records // 2
    with workplace(cores) as place, tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder:
        write_backlog(place.bootstrap_servers, transactions, value_bytes)
        job = {
            "KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
            "JOB__CHECKPOINT": f"{folder}/checkpoint",
            "JOB__MASTER": f"local[{cores}]",
            "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
            "JOB__DRIVER_MEMORY": driver_memory,
            "LOG__FORMAT": "text",
        }
        with RunningJob(Path(folder) / "output", job) as running:
            watch = MemoryWatch(running.pid)
            watch.start()
            progress = _until_committed(running, transactions)
            peak = watch.stop()
        once = delivered_once(place.bootstrap_servers, transactions)
    return BacklogResult(
        records=2 * transactions,
        seconds=round(progress.seconds, 1),
        records_per_second=round(2 * transactions / progress.seconds, 1),
        batches=progress.batches,
        driver_memory=driver_memory,
        peak_mib=round(peak.tree, 1),
        peak_java_mib=round(peak.java, 1),
        peak_python_mib=round(peak.python, 1),
        checked=progress.counts["checked"],
        most_ops_waiting=progress.most_waiting,
        rejected=progress.counts["rejected"],
        delivered_once=once,
        value_bytes=value_bytes,
    )


@dataclass
class _Progress:
    """What the job has said so far."""

    counts: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    most_waiting: int = 0
    seconds: float = 0.0

    def add(self, counts: str) -> None:
        """Take in what is said of one batch."""
        for name, number in re.findall(r"(\w+) (\d+)", counts):
            self.counts[name] += int(number)
        self.batches += 1
        ended = sum(self.counts[name] for name in ("applied", "without_effect", "duplicate", "rejected"))
        self.most_waiting = max(self.most_waiting, self.counts["op"] - ended)


def _until_committed(job: RunningJob, transactions: int) -> _Progress:
    """Follow what the job prints until it has committed so many."""
    deadline = job.began + _START_SECONDS + 2 * transactions / _RECORDS_PER_SECOND_AT_LEAST
    progress = _Progress()
    while progress.counts["committed"] < transactions:
        if job.exit_status is not None or time.monotonic() > deadline:
            said = job.said()[-2_000:]
            raise CheckbackError(f"The job committed {progress.counts['committed']} of {transactions}: {said}")
        time.sleep(0.1)
        for counts in _BATCH.findall(job.said())[progress.batches :]:
            progress.add(counts)
    progress.seconds = time.monotonic() - job.began
    return progress
