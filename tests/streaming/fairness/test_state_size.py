"""How much state goes to Python at once, and that Spark does as it is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

from streaming.fairness.state_size import FEW, MANY, ROWS, ArrowRows
from streaming.folders import folder_at
from tests.place import wait_until


@pytest.fixture
def arrow(spark: SparkSession, tmp_path: Path) -> Iterator[ArrowRows]:
    before = spark.conf.get(ROWS) or ""
    yield ArrowRows(spark, folder_at(spark, str(tmp_path)), 4_000)
    spark.conf.set(ROWS, before)


def test_above_a_quarter_of_the_memory_batches_are_small_until_it_is_less_again(arrow: ArrowRows) -> None:
    rows = [arrow.after(size) for size in (None, 0, 1_000, 1_001, None, 1_001, 1_000)]
    assert rows == [MANY, MANY, MANY, FEW, FEW, FEW, MANY]


def test_a_start_goes_on_as_it_was(arrow: ArrowRows, spark: SparkSession, tmp_path: Path) -> None:
    arrow.after(1_001)
    again = ArrowRows(spark, folder_at(spark, str(tmp_path)), 4_000)
    assert (again.after(None), spark.conf.get(ROWS)) == (FEW, str(FEW))
    assert again.after(10) == MANY
    assert ArrowRows(spark, folder_at(spark, str(tmp_path)), 4_000).after(None) == MANY


@pytest.mark.parametrize(("many", "few"), [(500, FEW), (10, 10)])
def test_a_number_of_the_operators_holds_where_there_is_little_state(
    spark: SparkSession, arrow: ArrowRows, tmp_path: Path, many: int, few: int
) -> None:
    own = ArrowRows(spark, folder_at(spark, str(tmp_path)), 4_000, many)
    assert spark.conf.get(ROWS) == str(many)
    assert [own.after(size) for size in (0, 1_001, 0)] == [many, few, many]


def test_spark_does_as_it_is_told_from_the_next_batch_on(spark: SparkSession, arrow: ArrowRows, tmp_path: Path) -> None:
    source, seen = tmp_path / "in", []
    source.mkdir()

    def batches(key: Any, pieces: Iterator[pa.RecordBatch], _state: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"most": [max(len(piece) for piece in pieces)]})

    def write(number: int) -> None:
        rows = "\n".join(json.dumps({"n": at, "g": 1}) for at in range(500))
        (tmp_path / "next").write_text(rows, encoding="utf-8")
        (tmp_path / "next").rename(source / f"{number}.json")

    def sink(frame: Any, number: int) -> None:
        seen.append(max(row["most"] for row in frame.collect()))
        arrow.after(1_001 if number == 0 else 0)

    write(0)
    rows = spark.readStream.schema("n long, g long").json(str(source)).groupBy("g")
    made = rows.applyInPandasWithState(batches, "most long", "x long", "append", GroupStateTimeout.NoTimeout)
    query = made.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(sink).start()
    try:
        arrow.watch(query)
        for number in (1, 2):
            wait_until(lambda so_far=number: len(seen) == so_far)
            write(number)
        wait_until(lambda: len(seen) == 3)
    finally:
        query.stop()
    assert seen == [500, FEW, 500]
