"""Barred groups are fixed with the batch, and a batch that is run again finds them as they were."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError
from streaming.batch.kept_by_batch import KeptByBatch, refuse_torn
from streaming.fairness.barred import BARRED, Barred, tell_tasks, told
from streaming.folders import LocalFolder


class Wanted:
    """Whoever watches the quotas."""

    def __init__(self) -> None:
        self.barred = Barred()

    def __call__(self, _before: Barred) -> Barred:
        return self.barred


def in_force(folder: LocalFolder, wanted: Wanted) -> Callable[[int], Barred]:
    """Of a run of the job: what holds in a batch."""
    kept = KeptByBatch(folder, BARRED)
    return lambda batch: kept.of_batch(batch, wanted)


def test_a_group_is_barred_from_the_batch_that_is_begun_next(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    assert force(5) == Barred()
    wanted.barred = Barred({"shop": "too much"})
    assert force(6) == Barred({"shop": "too much"})
    wanted.barred = Barred()
    assert force(7) == Barred()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkback-barred-6.json", "checkback-barred-7.json"]


def test_a_batch_that_is_run_again_finds_what_it_had(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    force(5)
    wanted.barred = Barred({"shop": "too much"})
    assert force(6) == Barred({"shop": "too much"})

    wanted.barred = Barred({"other": "too much now"})  # the job was killed in batch 6, and started again
    force = in_force(LocalFolder(tmp_path), wanted)
    assert force(6) == Barred({"shop": "too much"})
    assert force(7) == Barred({"other": "too much now"})

    wanted.barred = Barred()  # and again, in batch 9, for which nothing was written
    force = in_force(LocalFolder(tmp_path), wanted)
    assert force(9) == Barred({"other": "too much now"})
    assert force(10) == Barred()


def test_the_reason_stays_what_was_written(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    force(0)
    wanted.barred = Barred({"shop": "11 of 10"})
    first = force(1)
    wanted.barred = Barred({"shop": "12 of 10"})
    assert force(2) == first


def test_accounts_are_kept_beside_groups(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    force(5)
    wanted.barred = Barred({"shop": "too much"}, {"big": "too much, too"})
    force(6)
    assert in_force(LocalFolder(tmp_path), Wanted())(6) == wanted.barred


def test_without_accounts_a_file_is_as_a_job_of_before_there_were_any_reads_it(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    force(5)
    wanted.barred = Barred({"shop": "too much", "accounts": "too much"})
    force(6)
    assert json.loads((tmp_path / "checkback-barred-6.json").read_bytes()) == wanted.barred.groups
    assert in_force(LocalFolder(tmp_path), Wanted())(6) == wanted.barred


def test_files_of_long_ago_are_removed_but_for_the_newest(tmp_path: Path) -> None:
    wanted = Wanted()
    force = in_force(LocalFolder(tmp_path), wanted)
    for batch in range(0, 1000, 10):
        wanted.barred = Barred({str(batch): "too much"} if batch % 20 else {})
        force(batch)
    assert 2 <= len(list(tmp_path.iterdir())) <= 13
    again = in_force(LocalFolder(tmp_path), wanted)
    assert again(990) == Barred({"990": "too much"})


def test_tasks_are_told(spark: SparkSession) -> None:
    context = spark.sparkContext

    def heard(_: object) -> list[str]:
        return [json.dumps(told())]

    tell_tasks(context, Barred({"shop": "wegen Überfüllung"}, {"big": "too much"}))
    try:
        (said,) = context.parallelize([0], 1).mapPartitions(heard).collect()
        assert said == '[{"shop": "wegen \\u00dcberf\\u00fcllung"}, {"big": "too much"}]'
    finally:
        tell_tasks(context, Barred())
    assert context.parallelize([0], 1).mapPartitions(heard).collect() == ["[{}, {}]"]


TORN = [b"", b'{"shop": "too', b"\xff\x00", b"null", b"[1]", b'{"shop": 3}', b'{"groups": {}, "accounts": 3}']


def unfinished(folder: Path, content: bytes) -> LocalFolder:
    """The checkpoint of a job that died in batch 7, with groups barred from batch 5."""
    for log, batch in (("offsets", 6), ("offsets", 7), ("commits", 6)):
        (folder / log).mkdir(exist_ok=True)
        (folder / log / str(batch)).touch()
    (folder / "checkback-barred-5.json").write_bytes(content)
    return LocalFolder(folder)


def torn(name: str) -> CheckpointMismatchError:
    return CheckpointMismatchError(f"{name} is torn")


@pytest.mark.parametrize("content", TORN)
def test_a_torn_file_that_an_unfinished_batch_in_kafka_was_begun_under_is_refused(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(CheckpointMismatchError, match=r"checkback-barred-5\.json is torn"):
        refuse_torn(unfinished(tmp_path, content), BARRED, lambda batch: batch == 7, torn)


@pytest.mark.parametrize("content", TORN)
def test_a_torn_file_that_nothing_in_kafka_rests_on_bars_nobody(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    folder = unfinished(tmp_path, content)
    refuse_torn(folder, BARRED, lambda _batch: False, torn)
    assert in_force(folder, Wanted())(7) == Barred()
    assert "checkback-barred-5.json in the checkpoint was torn" in caplog.text
    refuse_torn(folder, BARRED, lambda _batch: True, torn)  # of batch 7, in which nobody was barred
    assert in_force(folder, Wanted())(7) == Barred()


def test_a_torn_file_is_no_hindrance_when_no_batch_is_unfinished(tmp_path: Path) -> None:
    folder = unfinished(tmp_path, b"")
    (tmp_path / "commits" / "7").touch()
    refuse_torn(folder, BARRED, lambda _batch: True, torn)
