"""The state of a batch is counted, whatever the checkpoint folder is called."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state import Usage
from streaming.fairness.fairness import usage_in_state
from streaming.folders import path_of_state
from tests.place import AWKWARD_NAME
from tests.streaming.stateful.test_segments import START_MS, TOLERANCE_MS, Stream, half


@pytest.mark.parametrize(("scheme", "name"), [("file:", "checkpoint"), ("file://", AWKWARD_NAME)])
def test_the_state_is_counted_and_moved_to_more_partitions(
    spark: SparkSession, tmp_path: Path, name: str, scheme: str
) -> None:
    stream = Stream(spark, tmp_path)
    stream.checkpoint = tmp_path / name
    stream.start()
    stream.feed(0, half(1, value="AAAA"), half(70, group="other"))
    stream.stop()
    batch = max(int(file.name) for file in (stream.checkpoint / "commits").glob("[0-9]*"))
    counted = usage_in_state(spark, f"{scheme}{stream.checkpoint}", batch, "")
    assert counted.usages == {"shop": Usage(1, 3, 0, 0), "other": Usage(1, 0, 0, 0)}
    assert {timeout_ms + TOLERANCE_MS + 1 for timeout_ms in counted.timeouts_ms} == {START_MS + 6_000}
    spark._streamingCheckpointManager.repartition(path_of_state(spark, f"{scheme}{stream.checkpoint}"), 3)
    assert usage_in_state(spark, f"{scheme}{stream.checkpoint}", batch + 1, "").usages == counted.usages
    assert {file.name for file in (stream.checkpoint / "state" / "0").glob("[0-9]*")} == {"0", "1", "2"}
    assert {file.name for file in tmp_path.iterdir()} == {name, "clock", "input"}, "no folder of another name"
