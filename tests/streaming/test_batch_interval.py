"""``job.batch_interval``: batches begin so far apart, on Spark's own clock."""

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf import Settings
from streaming.query import start_query
from tests.place import wait_until

INTERVAL_MS = 1_500


def began_ms(query: StreamingQuery) -> list[int]:
    """Of each batch, as Spark says."""
    progress = [one for one in query.recentProgress if "addBatch" in one["durationMs"]]
    return [int(datetime.fromisoformat(one["timestamp"]).timestamp() * 1000) for one in progress]


def test_batches_begin_so_far_apart(spark: SparkSession, tmp_path: Path) -> None:
    job = {"checkpoint": str(tmp_path / "checkpoint"), "batch_interval": f"{INTERVAL_MS}ms", "name": "apart"}
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    with ExitStack() as stopped:
        query = start_query(rows, Settings.model_validate({"job": job}), lambda _frame, _batch: None)
        stopped.callback(query.stop)
        wait_until(lambda: len(began_ms(query)) >= 3)
        turns = [began // INTERVAL_MS for began in began_ms(query)]
    assert len(set(turns)) == len(turns), "two batches began in one interval"
