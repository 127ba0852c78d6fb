"""What is in the checkpoint folder is brought to the disk: each file once, and again when it is another one."""

import os
from pathlib import Path

import pytest

from streaming.checkpoint.durable import DurableFolder


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that were synchronised."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: paths.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    return paths


def test_each_file_is_brought_to_the_disk_once_with_its_name(tmp_path: Path, brought: list[str]) -> None:
    (tmp_path / "state/0/1").mkdir(parents=True)
    (tmp_path / "offsets").mkdir()
    first, changes = tmp_path / "offsets/0", tmp_path / "state/0/1/1.changelog"
    first.write_text("v1")
    changes.write_text("rows")
    folder = DurableFolder(tmp_path)
    folder.synchronise()
    assert {str(first), str(changes), str(first.parent), str(changes.parent)} <= set(brought)
    assert brought.index(str(changes)) < len(brought) - 1 - brought[::-1].index(str(changes.parent)), "bytes first"
    brought.clear()
    folder.synchronise()
    assert brought == []
    (tmp_path / "offsets/1").write_text("v1")
    folder.synchronise()
    assert brought == [str(tmp_path / "offsets/1"), str(tmp_path / "offsets")]


def test_a_file_that_was_written_again_is_another_one(tmp_path: Path, brought: list[str]) -> None:
    entry = tmp_path / "0"
    entry.write_text("torn")
    folder = DurableFolder(tmp_path)
    folder.synchronise()
    brought.clear()
    entry.unlink()
    entry.write_text("whole")  # it may get the inode of the one before
    folder.synchronise()
    assert str(entry) in brought


def test_what_has_no_final_name_yet_is_left_alone(tmp_path: Path, brought: list[str]) -> None:
    for name in (".0.1f.tmp", "..0.1f.tmp.crc", ".checkback.json.1f.unfinished"):
        (tmp_path / name).write_text("half of it")
    DurableFolder(tmp_path).synchronise()
    assert brought == []


def test_a_disk_that_does_not_take_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("v1")

    def fails(_handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output error"):
        DurableFolder(tmp_path).synchronise()
