"""Recovery: a job in the midst of a steady trickle gets SIGKILL and is started again at once, several times."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench.outage_load import HealthyGroup, HealthyReader, needs_check
from bench.running import RunningJob
from bench.workload import STATE_PARTITIONS, Workplace, workplace

_LIMIT_SECONDS = 180.0

Tell = Callable[[str], None]


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
    running: list[float] = []
    delivers: list[float] = []
    with (
        workplace(cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-recover-") as folder,
        _load(place, per_second) as (group, reader),
    ):
        for number in range(kills + 1):
            began = time.time()
            with RunningJob(Path(folder) / f"output-{number}", _settings(place, Path(folder))) as job:
                job.wait_until(partial(_runs, job), _LIMIT_SECONDS, "started")
                running.append(round(time.time() - began, 1))
                job.wait_until(partial(_delivers, group, reader, began), _LIMIT_SECONDS, "delivered")
                delivers.append(round(time.time() - began, 1))
                tell(f"start {number + 1}: running after {running[-1]} s, delivers after {delivers[-1]} s")
                job.run_for(alive_seconds)
                job.kill()
    return RecoverResult(running, delivers, median(running[1:]), median(delivers[1:]), per_second)


def _runs(job: RunningJob) -> bool:
    return "Running;" in job.said()


def _delivers(group: HealthyGroup, reader: HealthyReader, began: float) -> bool:
    """Whether a transaction with an op that began after that time has come."""
    new = (name for name, at in list(group.sent.items()) if at > began and not needs_check(name))
    return any(name in reader.read for name in new)


def _settings(place: Workplace, folder: Path) -> dict[str, str]:
    return {
        "KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "JOB__CHECKPOINT": str(folder / "checkpoint"),
        "JOB__MASTER": place.settings.job.master,
        "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
        "HTTP__PORT": "0",
    }


@contextmanager
def _load(place: Workplace, per_second: int) -> Iterator[tuple[HealthyGroup, HealthyReader]]:
    group, reader = HealthyGroup(place.bootstrap_servers, per_second), HealthyReader(place.bootstrap_servers)
    reader.start()
    group.start()
    try:
        yield group, reader
    finally:
        group.stop()
        reader.stop()
