"""The job of an end-to-end test, in the test's own Spark."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from streaming import BatchReport, TransactionJob
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
