"""Checkback's own files in the checkpoint folder: torn ones, and a folder that a later version has continued."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import CheckpointMismatchError
from streaming.checkpoint.folder import VERSION, Checkpoint, CheckpointFacts

FACTS = CheckpointFacts(4_096, 2, 8, "cb.", "id-of-half", "id-of-op")


def refused(spark: SparkSession, folder: Path) -> str:
    checkpoint = Checkpoint(spark, str(folder))
    try:
        checkpoint.check(FACTS)
        checkpoint.query_id()
    except CheckpointMismatchError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["checkback.json", "metadata"])
@pytest.mark.parametrize("content", [b"", b"{", b"\x00" * 40, b"\xff", b"null", b"[]", b'"text"', b"{}"])
def test_a_file_that_is_torn_is_named(spark: SparkSession, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "checkback.json").write_text(json.dumps(asdict(FACTS)), encoding="utf-8")
    (tmp_path / "metadata").write_text('{"id":"query"}', encoding="utf-8")
    (tmp_path / name).write_bytes(content)
    said = refused(spark, tmp_path)
    assert said.startswith(f"{tmp_path}/{name} is torn")
    assert "restore the folder from its newest copy" in said


def test_a_checkpoint_that_a_later_version_has_continued_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    assert refused(spark, tmp_path) == ""  # as today's code makes it, without a version
    Checkpoint(spark, str(tmp_path)).remember_version()
    assert refused(spark, tmp_path) == ""
    (tmp_path / f"checkback-version-{VERSION + 1}").touch()
    said = refused(spark, tmp_path)
    assert f"was continued by a later Checkback: the checkpoint is of version {VERSION + 1}" in said
    assert "Start that Checkback again" in said


def test_other_state_partitions_are_refused_with_the_way_to_get_them(spark: SparkSession, tmp_path: Path) -> None:
    Checkpoint(spark, str(tmp_path)).check(replace(FACTS, state_partitions=6))
    said = refused(spark, tmp_path)
    assert "has 6 state partitions, and job.state_partitions is 2" in said
    assert "'checkback grow --state-partitions 2'" in said


def test_while_it_is_growing_only_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.check(FACTS)
    checkpoint.begin_growing(6)
    with pytest.raises(CheckpointMismatchError, match="--state-partitions 6' was cut off"):
        checkpoint.begin_growing(7)
    assert checkpoint.growing() == 6
    assert "'checkback grow --state-partitions 6' was cut off" in refused(spark, tmp_path)
    with pytest.raises(CheckpointMismatchError, match="type it again"):
        checkpoint.check(FACTS, to_grow=7)
    checkpoint.check(FACTS, to_grow=6)
    checkpoint.end_growing(6)
    assert (checkpoint.growing(), checkpoint.state_partitions()) == (None, 6)
    checkpoint.check(replace(FACTS, state_partitions=6))
    checkpoint.begin_growing(3)
    (tmp_path / "checkback-partitions-3").touch()  # cut off between the last steps
    assert checkpoint.state_partitions() == 3
    checkpoint.end_growing(3)
    assert sorted(file.name for file in tmp_path.glob("checkback-partitions-*")) == ["checkback-partitions-3"]


def test_a_folder_that_is_not_a_jobs_has_no_number(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointMismatchError, match="is not the folder of a job"):
        Checkpoint(spark, str(tmp_path)).state_partitions()
