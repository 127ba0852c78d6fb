"""The job of an end-to-end test, in the test's own Spark."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from streaming import BatchReport, TransactionJob
from streaming.batch.failpoints import Failpoint, FailpointHook, no_failpoint
from tests.place import Place


@contextmanager
def running(place: Place, spark: SparkSession, **sections: dict[str, Any]) -> Iterator[Counter[str]]:
    """The job, and its counts as they grow."""
    counts: Counter[str] = Counter()

    def observe(report: BatchReport) -> None:
        counts.update(report.counts)

    with TransactionJob(place.settings(**sections), observe, spark) as job:
        yield counts
        job.wait(1)


class OnlyHere:
    """A hook for this process; in tasks, which get a copy, it sees nothing."""

    def __init__(self, seen: FailpointHook) -> None:
        self._seen = seen

    def __call__(self, step: Failpoint, batch: int) -> None:
        self._seen(step, batch)

    def __reduce__(self) -> tuple[type["OnlyHere"], tuple[FailpointHook]]:
        return OnlyHere, (no_failpoint,)
