"""Python workers that Spark starts before there is a batch."""

import logging
import threading

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.python_worker import early_start
from streaming.python_worker.early_start import start_workers_early
from tests.place import wait_until


def test_as_many_tasks_of_python_run_as_there_are_state_partitions(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, early_start.__name__)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    _started_early(spark, 3)
    assert not caplog.records
    (job,) = set(tracker.getJobIdsForGroup(None)) - before
    ended = tracker.getJobInfo(job)
    assert ended is not None
    stage = ended.stageIds[0]
    # what Spark says of a job comes after its end, later on a busy machine
    wait_until(lambda: getattr(tracker.getStageInfo(stage), "numCompletedTasks", 0) == 3, "all three ran")


def test_a_spark_that_is_gone_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    class Gone:
        def range(self, *_numbers: int) -> None:
            raise Py4JError("the Java is gone")

    caplog.set_level(logging.DEBUG, early_start.__name__)
    _started_early(Gone(), 2)  # type: ignore[arg-type]  # as a session is once its Java has ended
    assert "the Java is gone" in caplog.text


def _started_early(spark: SparkSession, number: int) -> None:
    running = set(threading.enumerate())
    start_workers_early(spark, number)
    for thread in set(threading.enumerate()) - running:
        thread.join(60)
        assert not thread.is_alive()
