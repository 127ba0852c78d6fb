"""What is tried of the checkpoint folder before Spark is started."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from checkback.exceptions import CheckpointMismatchError, JobStoppedError
from streaming.checkpoint.folder import CheckpointFacts
from streaming.trial import try_facts, try_folder


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "checkpoint"
    assert try_folder(f"file:{folder}") == ""
    assert list(folder.iterdir()) == []


def test_its_query_id_is_known(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    assert try_folder(str(tmp_path)) == "q"
    (tmp_path / "metadata").write_text("")
    assert try_folder(str(tmp_path)) is None


def test_what_is_not_on_this_machine_is_tried_by_hadoop() -> None:
    assert try_folder("hdfs://name/checkpoint") is None


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    file = tmp_path / "a file"
    said = f"The checkpoint folder {file}/x cannot be created: {file} is not a folder. Name another"
    with pytest.raises(JobStoppedError, match=re.escape(said)):
        try_folder(f"{file}/x")


def test_a_folder_that_the_system_refuses_is_named() -> None:
    said = "The checkpoint folder /proc/x cannot be created: the system says 'no such file or directory' in /proc. Name"
    with pytest.raises(JobStoppedError, match=re.escape(said)):
        try_folder("/proc/x")


def test_a_folder_that_takes_no_file_is_named() -> None:
    with pytest.raises(JobStoppedError, match=r"may not write to its files: .*/proc.* then start again"):
        try_folder("/proc")


def test_a_checkpoint_of_other_settings_is_refused_without_spark(tmp_path: Path) -> None:
    facts = CheckpointFacts(1_024, 4, 8, "cb.")
    try_facts(str(tmp_path), facts)
    (tmp_path / "checkback.json").write_text(json.dumps(asdict(facts)))
    try_facts(f"file:{tmp_path}", facts)
    said = f'The checkpoint {tmp_path} was made with topic_prefix = "cb.", now it is "xx.". It is fixed'
    with pytest.raises(CheckpointMismatchError, match=re.escape(said)):
        try_facts(str(tmp_path), replace(facts, topic_prefix="xx."))
    (tmp_path / "checkback.json").write_text("{")
    try_facts(str(tmp_path), facts)
