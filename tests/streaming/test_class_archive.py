"""Where an archive of Spark's classes is, and what is said when it cannot be made; its use is seen end to end."""

import os
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from checkback.exceptions import InstallationError
from checkback.local import java_command
from streaming.class_archive import archive_file, archive_options, make_archive


def test_jobs_with_the_same_jars_share_an_archive_in_the_users_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    both = archive_file(["postgresql", "delta"])
    assert both == archive_file(["delta", "postgresql", "delta"])
    assert len({both, archive_file(), archive_file(["delta"])}) == 3
    assert archive_file(["parquet"]) == archive_file()
    assert both.parent == tmp_path / "checkback"


def test_a_process_that_was_told_its_java_finds_the_same_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    found = archive_file()
    java_command.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(java_command().resolve().parents[1]))
    java_command.cache_clear()
    assert archive_file() == found


def test_a_job_without_an_archive_starts_as_any_java_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archive_options() == []


def test_so_does_a_job_whose_user_has_no_home_or_may_not_look_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_path: Path) -> bool:
        raise PermissionError

    def none() -> Path:
        raise RuntimeError

    with monkeypatch.context() as changed:
        changed.setattr(Path, "exists", closed)
        assert archive_options() == []
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert archive_options() == []


def test_an_archive_that_is_there_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = leave_archive(b"as it is")
    assert make_archive() == archive
    assert archive.read_bytes() == b"as it is"
    assert archive_options()[0] == f"-XX:SharedArchiveFile={archive}"


def test_an_environment_that_was_made_again_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "core.jar").write_bytes(b"classes")
    monkeypatch.setattr(pyspark, "__file__", str(jars.parent / "__init__.py"))
    (tmp_path / "cache").mkdir()
    first = leave_archive(b"made with the first ones")
    assert make_archive() == first
    os.utime(jars / "core.jar", (1, 1))  # Java would compare the times, and not use it
    assert archive_options() == []

    def made(command: Sequence[str], **_: object) -> None:
        Path(command[command.index("--into") + 1]).write_bytes(b"made with these")

    monkeypatch.setattr("streaming.class_archive.subprocess.run", made)
    second = make_archive()
    assert archive_options()[0] == f"-XX:SharedArchiveFile={second}"
    assert {file.stem for file in first.parent.iterdir()} == {second.stem}, "the first one is gone"


def test_java_is_given_no_archive_that_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = leave_archive(b"as it is")
    os.truncate(archive, 3)
    assert archive_options() == []
    archive.with_suffix(".size").write_bytes(b"\xff")
    assert archive_options() == []
    archive.with_suffix(".size").unlink()
    assert archive_options() == []


def leave_archive(content: bytes) -> Path:
    archive = archive_file()
    archive.parent.mkdir()
    archive.write_bytes(content)
    archive.with_suffix(".size").write_text(str(len(content)))
    return archive


def test_why_none_could_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a file"))
    with pytest.raises(InstallationError, match=r"No archive of classes could be made: .*Not a directory"):
        make_archive()


def test_of_a_process_that_failed_the_last_line_is_told_and_no_draft_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no java"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "pyspark.py").write_text("raise SystemExit('This Spark does not start.')")
    with pytest.raises(InstallationError, match=r"could be made: This Spark does not start\.$"):
        make_archive()
    assert not archive_file().exists()
    assert [file.suffix for file in archive_file().parent.iterdir()] == [".lock"]
