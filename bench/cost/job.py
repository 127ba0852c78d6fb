"""``checkback run`` as a process of its own, of this checkout or of another tree, and what it costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.cost.course import BatchCourse, DoneBatch
from bench.cost.groups import CpuOfJob, CpuSeconds
from bench.running import RunningJob
from bench.workload import STATE_PARTITIONS, Workplace

THIS_TREE = Path(__file__).parents[2]
_START_SECONDS = 300.0


class CostedJob:
    """A job, and its batches with their CPU times."""

    def __init__(self, job: RunningJob, course: BatchCourse) -> None:
        self._job = job
        self._course = course

    @property
    def batches(self) -> Sequence[DoneBatch]:
        """Those until now."""
        return self._course.batches

    @property
    def pid(self) -> int:
        """Of the driver's Python process."""
        return self._job.pid

    @property
    def used(self) -> CpuSeconds:
        """CPU time as of a second ago at most."""
        return self._course.used

    def sum(self, name: str) -> int:
        """Of a count, of all batches until now."""
        return sum(batch.counts.get(name, 0) for batch in self.batches)

    @property
    def decided(self) -> int:
        """Transactions, until now."""
        return sum(batch.transactions for batch in self.batches)

    def wait_until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait while the job runs.

        Raises:
            CheckbackError: the job ended, or within ``seconds`` it has not done ``what``.
        """
        self._job.wait_until(holds, seconds, what)

    def run_for(self, seconds: float) -> None:
        """Let ``seconds`` pass.

        Raises:
            CheckbackError: the job ended.
        """
        self._job.run_for(seconds)


@contextmanager
def costed_job(
    place: Workplace, folder: Path, tree: Path = THIS_TREE, settings: Mapping[str, str] | None = None
) -> Iterator[CostedJob]:
    """Run that of ``tree`` under settings that all commits know; ready when the block is entered."""
    job = place.settings.job
    common = {
        "KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "JOB__CHECKPOINT": str(folder / "checkpoint"),
        "JOB__MASTER": job.master,
        "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
        "JOB__DRIVER_MEMORY": job.driver_memory,
        "HTTP__PORT": "0",
        "LOG__FORMAT": "json",
    }
    # The tree comes before what is installed, and the folder that the measurement was started in is not looked at.
    beside = {"PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1"}
    output = folder / "output"
    with RunningJob(output, common | dict(settings or {}), beside) as running:
        course = BatchCourse(output, CpuOfJob(running.pid, place.broker))
        course.start()
        try:
            running.wait_until(lambda: "Running;" in running.said(), _START_SECONDS, "started")
            yield CostedJob(running, course)
        finally:
            course.stop()
