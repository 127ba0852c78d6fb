"""The class that writes checkpoints into an object store: made once, and used for nothing else."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from checkback.exceptions import InstallationError
from conf import Settings
from streaming.session import WHOLE_FILES, spark_options, whole_files_jar


def options(checkpoint: str) -> dict[str, str]:
    return spark_options(Settings.model_validate({"job": {"checkpoint": checkpoint, "spark_options": _WRONG}}), (), [])


_WRONG = {"spark.hadoop.fs.s3a.create.conditional.enabled": "false"}


def test_a_checkpoint_in_a_store_has_its_class_and_what_it_rests_on_whatever_the_settings_say() -> None:
    found = options("s3a://bucket/checkpoint")
    assert found.items() >= WHOLE_FILES.items()
    assert str(whole_files_jar()) in found["spark.jars"].split(",")


def test_any_other_checkpoint_pays_for_nothing() -> None:
    found = options("hdfs://names/checkpoint")
    assert found.items() >= _WRONG.items()
    assert "WholeFiles" not in found["spark.jars"]
    assert "hadoop-aws" not in found["spark.jars"]


def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jar = whole_files_jar()
    assert "checkback/WholeFiles.class" in zipfile.ZipFile(jar).namelist()
    monkeypatch.setattr(subprocess, "run", None)
    assert whole_files_jar() == jar
    assert list(jar.parent.iterdir()) == [jar]


def test_a_cache_that_cannot_be_written_to_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    with pytest.raises(InstallationError, match=r"cannot be made in .*Not a directory"):
        whole_files_jar()
