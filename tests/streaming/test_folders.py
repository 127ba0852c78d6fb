"""Folders on this machine, by the operating system and by Hadoop, which stands for HDFS here."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.folders import Folder, HadoopFolder, LocalFolder, folder_at
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
