"""Recovery: a job in the midst of a steady trickle gets SIGKILL and is started again at once, several times."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.outage_load import HealthyGroup, HealthyReader, needs_check
from bench.running import RunningJob, Tell
from bench.workload import STATE_PARTITIONS, Workplace, workplace

_LIMIT_SECONDS = 180.0


@dataclass(frozen=True)
class RecoverResult:
    """In s, of each start; the first is on a new checkpoint, the others follow a SIGKILL."""

    running_after_seconds: list[float]
    """From the start of the process until it says "Running"."""
    delivers_after_seconds: list[float]
    """Likewise until a message could be read whose transaction began after the start: after the SIGKILL, that is."""
    running_after_kill_seconds: float
    """Median."""
    delivers_after_kill_seconds: float
    """Median."""
    per_second: int


def measure_recovery(
    kills: int = 3, per_second: int = 50, alive_seconds: float = 30.0, cores: int = 2, tell: Tell = lambda _line: None
) -> RecoverResult:
    """Start a job, and after it has worked for a while kill it with all its processes, so many times.

    Raises:
        CheckbackError: the job ended, or did not deliver in three minutes.
    """
    starts: list[Start] = []
    with (
        workplace(cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-recover-") as folder,
        trickle(place.bootstrap_servers, per_second) as load,
    ):
        for number in range(kills + 1):
            output = Path(folder) / f"output-{number}"
            with timed_start(output, job_settings(place, Path(folder)), load) as (job, start):
                starts.append(start)
                tell(f"start {number + 1}: running after {start.running} s, delivers after {start.delivers} s")
                job.run_for(alive_seconds)
                job.kill()
    running, delivers = ([start[index] for start in starts] for index in (0, 1))
    return RecoverResult(running, delivers, median(running[1:]), median(delivers[1:]), per_second)


class Start(NamedTuple):
    """How long one took, in s from the start of the process."""

    running: float
    """Until it says "Running"."""
    delivers: float
    """Until a message could be read whose transaction began after the start."""


Load = tuple[HealthyGroup, HealthyReader]


@contextmanager
def timed_start(output: Path, settings: Mapping[str, str], load: Load) -> Iterator[tuple[RunningJob, Start]]:
    """Start a job under a load; it is ended with the block.

    Raises:
        CheckbackError: it ended, or did not deliver in three minutes.
    """
    began = time.time()
    with RunningJob(output, settings) as job:
        job.wait_until(lambda: "Running;" in job.said(), _LIMIT_SECONDS, "started")
        running = round(time.time() - began, 1)
        job.wait_until(partial(_delivers, *load, began), _LIMIT_SECONDS, "delivered")
        yield job, Start(running, round(time.time() - began, 1))


def _delivers(group: HealthyGroup, reader: HealthyReader, began: float) -> bool:
    """Whether a transaction with an op that began after that time has come."""
    new = (name for name, at in list(group.sent.items()) if at > began and not needs_check(name))
    return any(name in reader.read for name in new)


def job_settings(place: Workplace, folder: Path) -> dict[str, str]:
    """Of a job that has its checkpoint in that folder."""
    return {
        "KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "JOB__CHECKPOINT": str(folder / "checkpoint"),
        "JOB__MASTER": place.settings.job.master,
        "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
        "HTTP__PORT": "0",
    }


@contextmanager
def trickle(bootstrap_servers: str, per_second: int) -> Iterator[Load]:
    """A group that sends at a steady rate, and a reader of its messages."""
    group, reader = HealthyGroup(bootstrap_servers, per_second), HealthyReader(bootstrap_servers)
    reader.start()
    group.start()
    try:
        yield group, reader
    finally:
        group.stop()
        reader.stop()
