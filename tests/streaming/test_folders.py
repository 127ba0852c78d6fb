"""Folders on this machine, by the operating system and by Hadoop, which stands for HDFS here."""

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError, DestinationError
from streaming.folders import Folder, HadoopFolder, LocalFolder, folder_at, open_folder
from tests.place import AWKWARD_NAME


@pytest.fixture(params=["local", "hadoop"])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Folder:
    return LocalFolder(tmp_path) if request.param == "local" else HadoopFolder(spark, f"file:{tmp_path}")


def test_what_is_put_in_place_is_never_replaced_nor_nested(folder: Folder, tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder.make(f"staging/{name}")
        (tmp_path / "staging" / name / name).write_text(name)
    assert folder.put("staging/one", "target")
    assert not folder.put("staging/two", "target")
    assert folder.children("target") == ["one"]
    assert folder.children("staging") == ["two"]


def test_what_is_not_there_cannot_be_put(folder: Folder) -> None:
    with pytest.raises(Exception, match="nothing"):
        folder.put("nothing", "target")


def test_files_are_written_whole_and_replaced(folder: Folder) -> None:
    folder.make("")
    for content in (b"first", b"second"):
        folder.write("file", content)
        assert folder.read("file") == content
    assert [name for name in folder.children() if not name.startswith(".")] == ["file"]


def test_removing(folder: Folder, tmp_path: Path) -> None:
    folder.make("a/b/c")
    folder.remove("a/b")
    folder.remove("a/b")
    assert folder.children("a") == []
    assert folder.children("no such folder") == []


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_local_folders_by_any_of_their_names(scheme: str, spark: SparkSession, tmp_path: Path) -> None:
    found = folder_at(spark, f"{scheme}{tmp_path}/{AWKWARD_NAME}")
    assert (type(found), found.uri) == (LocalFolder, f"file:{tmp_path}/{AWKWARD_NAME}")


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (PermissionError(13, "Permission denied"), True),
        (NotADirectoryError(20, "Not a directory"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (OSError(errno.ESTALE, "Stale file handle"), False),
        (Exception("org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme"), True),
        (Exception("org.apache.hadoop.security.AccessControlException: Permission denied: user=job"), True),
        (Exception("java.net.ConnectException: Call From a to b failed: Connection refused"), False),
        (Exception("org.apache.hadoop.hdfs.server.namenode.SafeModeException: Name node is in safe mode"), False),
        (Exception("org.apache.hadoop.fs.s3a.AWSServiceIOException: 503 Slow Down"), False),
    ],
)
def test_a_store_that_is_away_is_no_error_of_the_settings(error: Exception, *, lasting: bool, tmp_path: Path) -> None:
    class Away(LocalFolder):
        def make(self, name: str) -> None:
            raise error

    with pytest.raises(ConfigurationError if lasting else DestinationError, match=r"sinks\.tables\.lake: the folder"):
        open_folder("lake", Away(tmp_path))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EINVAL, errno.EIO])
def test_folders_that_cannot_be_synchronized(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems refuse it, and a parent may not be readable; a disk that fails is an error."""
    synchronize = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        synchronize(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output") if number == errno.EIO else nullcontext():
        LocalFolder(tmp_path).write("name", b"content")


def test_a_file_that_was_removed_needs_no_synchronizing(tmp_path: Path) -> None:
    """OPTIMIZE and VACUUM may have run before a batch is repeated."""
    (tmp_path / "day=1").mkdir()
    LocalFolder(tmp_path).settle(["day=1/gone.parquet", "nowhere/gone.parquet"])
