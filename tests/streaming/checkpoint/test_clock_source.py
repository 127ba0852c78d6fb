"""Spark's rate source across starts: between them the machine's clock may have been set, in either direction."""

from pathlib import Path
from time import monotonic, time_ns

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.repair import continue_clock, examine, repairs

TOLERANCE_SECONDS = 600
AGE_SECONDS = 1_386
CLOCK = "sources/1/0"


def batches_run(spark: SparkSession, checkpoint: Checkpoint, seconds: float = 60.0) -> list[int]:
    """Run as many sources as the job's query has until two batches more have ended; where each ended in the clock."""
    before = checkpoint.newest("commits") or 0
    files = spark.readStream.schema("value LONG").json(f"{checkpoint.folder}-files")
    clock = spark.readStream.format("rate").option("numPartitions", 1).load().select("value")
    writing = files.unionByName(clock).writeStream.format("noop").option("checkpointLocation", checkpoint.folder)
    query, deadline = writing.start(), monotonic() + seconds
    try:
        while (checkpoint.newest("commits") or 0) < before + 2:
            assert not query.awaitTermination(1)
            if monotonic() > deadline:
                raise TimeoutError("no two batches have ended")
    finally:
        query.stop()
    return [checkpoint.entry(number).seconds for number in range((checkpoint.newest("commits") or 0) + 1)]


def set_clock(checkpoint: Checkpoint, seconds: int) -> None:
    """As Spark sees it: the source counts from a time that the checkpoint keeps."""
    began_ms = int(Path(checkpoint.folder, CLOCK).read_bytes().removeprefix(b"v1\n"))
    checkpoint.write(CLOCK, b"v1\n%d" % (began_ms - 1000 * seconds))


def started(checkpoint: Checkpoint) -> None:
    """As much of a start as concerns the clock."""
    for name in repairs(checkpoint, examine(checkpoint), []):
        checkpoint.remove(name)
    continue_clock(checkpoint, time_ns() // 1_000_000)


@pytest.fixture
def checkpoint(spark: SparkSession, tmp_path: Path) -> Checkpoint:
    files = Path(f"{tmp_path}/checkpoint-files")
    files.mkdir()
    (files / "first.json").write_text('{"value":1}', encoding="utf-8")
    made = Checkpoint(spark, f"{tmp_path}/checkpoint")
    made.write(CLOCK, b"v1\n%d" % (time_ns() // 1_000_000 - 1000 * AGE_SECONDS))
    batches_run(spark, made)
    return made


@pytest.mark.parametrize("seconds", [-TOLERANCE_SECONDS, TOLERANCE_SECONDS])
def test_the_clock_goes_on_from_the_last_batch(spark: SparkSession, checkpoint: Checkpoint, seconds: int) -> None:
    set_clock(checkpoint, seconds)
    started(checkpoint)
    ends = batches_run(spark, checkpoint)
    assert ends == sorted(ends)
    assert ends[-1] - ends[0] < TOLERANCE_SECONDS / 2


def test_a_checkpoint_whose_batch_spark_has_refused_goes_on(spark: SparkSession, checkpoint: Checkpoint) -> None:
    set_clock(checkpoint, -TOLERANCE_SECONDS)
    for _ in range(2):  # also once the clock has caught up
        # now and then Spark waits for its own clock to catch up instead, for ten minutes
        with pytest.raises((StreamingQueryException, TimeoutError)):
            batches_run(spark, checkpoint, 20.0)
        set_clock(checkpoint, TOLERANCE_SECONDS)
    started(checkpoint)
    ends = batches_run(spark, checkpoint)
    assert ends == sorted(ends)
