"""Barred groups are fixed with the batch, and a batch that is run again finds them as they were."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from streaming.fairness.barred import BarredInForce, tell_tasks, told
from streaming.fairness.quotas import Barred
from streaming.folders import LocalFolder


class Wanted:
    """Whoever watches the quotas."""

    def __init__(self) -> None:
        self.barred: Barred = {}

    def __call__(self, _before: Barred) -> Barred:
        return self.barred


def test_a_group_is_barred_from_the_batch_that_is_begun_next(tmp_path: Path) -> None:
    wanted = Wanted()
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    assert force.of_batch(5) == {}
    wanted.barred = {"shop": "too much"}
    assert force.of_batch(6) == {"shop": "too much"}
    wanted.barred = {}
    assert force.of_batch(7) == {}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkback-barred-6.json", "checkback-barred-7.json"]


def test_a_batch_that_is_run_again_finds_what_it_had(tmp_path: Path) -> None:
    wanted = Wanted()
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    force.of_batch(5)
    wanted.barred = {"shop": "too much"}
    assert force.of_batch(6) == {"shop": "too much"}

    wanted.barred = {"other": "too much now"}  # the job was killed in batch 6, and started again
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    assert force.of_batch(6) == {"shop": "too much"}
    assert force.of_batch(7) == {"other": "too much now"}

    wanted.barred = {}  # and again, in batch 9, for which nothing was written
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    assert force.of_batch(9) == {"other": "too much now"}
    assert force.of_batch(10) == {}


def test_the_reason_stays_what_was_written(tmp_path: Path) -> None:
    wanted = Wanted()
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    force.of_batch(0)
    wanted.barred = {"shop": "11 of 10"}
    first = force.of_batch(1)
    wanted.barred = {"shop": "12 of 10"}
    assert force.of_batch(2) == first


def test_files_of_long_ago_are_removed_but_for_the_newest(tmp_path: Path) -> None:
    wanted = Wanted()
    force = BarredInForce(LocalFolder(tmp_path), wanted)
    for batch in range(0, 1000, 10):
        wanted.barred = {str(batch): "too much"} if batch % 20 else {}
        force.of_batch(batch)
    assert 2 <= len(list(tmp_path.iterdir())) <= 13
    again = BarredInForce(LocalFolder(tmp_path), wanted)
    assert again.of_batch(990) == {"990": "too much"}


def test_tasks_are_told(spark: SparkSession) -> None:
    context = spark.sparkContext

    def heard(_: object) -> list[str]:
        return [json.dumps(told())]

    tell_tasks(context, {"shop": "wegen Überfüllung"})
    try:
        assert context.parallelize([0], 1).mapPartitions(heard).collect() == [
            '{"shop": "wegen \\u00dcberf\\u00fcllung"}'
        ]
    finally:
        tell_tasks(context, {})
    assert context.parallelize([0], 1).mapPartitions(heard).collect() == ["{}"]
