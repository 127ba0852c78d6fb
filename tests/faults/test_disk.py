"""A disk that loses power keeps what was synchronised, and nothing that was not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.checkpoint.durable import DurableFolder
from torture.disk import Disk, can_be_had


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not can_be_had():
        pytest.skip("This machine lets nobody mount a file system of its own: that needs root, ext4 and loop devices.")
    disk = Disk(tmp_path)
    disk.make()
    yield disk
    disk.close()


def start_again(disk: Disk) -> None:
    disk.cut()
    disk.unmount()
    disk.mount()


def written_as_spark_does(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_name(f".{file.name}.tmp")
    unfinished.write_text("v1")
    unfinished.rename(file)


def test_what_was_renamed_and_not_synchronised_is_empty(disk: Disk) -> None:
    entry, other = disk.folder / "offsets/7", disk.folder / "other"
    written_as_spark_does(entry)
    with other.open("w") as file:  # somebody else's fsync takes names to the disk, and not bytes
        file.write("something")
        file.flush()
        os.fsync(file.fileno())
    start_again(disk)
    assert (entry.read_text(), other.read_text()) == ("", "something")


def test_what_the_job_has_synchronised_is_kept(disk: Disk) -> None:
    folder = disk.folder / "checkpoint"
    folder.mkdir()
    written_as_spark_does(folder / "offsets/7")
    DurableFolder(folder).synchronise()
    written_as_spark_does(folder / "offsets/8")
    start_again(disk)
    assert (folder / "offsets/7").read_text() == "v1"
    kept = folder / "offsets/8"
    assert not kept.exists() or kept.read_text() == ""
