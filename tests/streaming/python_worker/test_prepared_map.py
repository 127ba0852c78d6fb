"""A function that Spark is given once, and what it is told of each batch."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.python_worker.prepared_map import BATCH_NUMBER, PreparedMap


def count(told: Any, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"told": str(told), "rows": sum(batch.num_rows for batch in rows)}])


@pytest.fixture
def counting() -> PreparedMap:
    return PreparedMap(count, "told string, rows long")


def test_each_batch_is_told_its_own_and_frames_may_differ(spark: SparkSession, counting: PreparedMap) -> None:
    for number, told in enumerate(["a", ("b", 1), None]):
        frame = spark.range(0, 10 * (number + 1), 1, 2)
        frame = frame if number else frame.selectExpr("id", "id as twice")
        found = [tuple(row) for row in counting.of(frame, number, told).collect()]
        assert found == [(str(told), 5 * (number + 1))] * 2


def test_a_task_of_another_batch_than_it_was_told_of_does_nothing(spark: SparkSession, counting: PreparedMap) -> None:
    context = spark.sparkContext
    frame = counting.of(spark.range(1), 7, "seven")
    context.setLocalProperty(BATCH_NUMBER, "8")
    try:
        with pytest.raises(Exception, match="A task of batch 8 was told that it is of batch 7"):
            frame.collect()
    finally:
        context.setLocalProperty(BATCH_NUMBER, None)  # type: ignore[arg-type]  # as Spark says it is removed
