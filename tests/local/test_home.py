"""A user without a home folder, or without a name, has a folder all the same."""

import os
from pathlib import Path

import pytest

from checkback.local import folders as module
from checkback.local.folders import cache_folder, home


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_home_folder_is_used_as_it_is(temporary: Path) -> None:
    assert (home(), cache_folder()) == (temporary, temporary / ".cache" / "checkback")
    assert list(temporary.iterdir()) == []


def test_a_user_without_a_name_and_home_gets_a_folder_of_its_own(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)
    made = home()
    assert (made.parent, made.stat().st_mode & 0o777) == (temporary, 0o700)
    assert os.environ["HOME"] == str(made)
    assert home() == made


def test_a_home_folder_that_cannot_be_written_to_is_used_for_the_cache_that_it_has(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (temporary / ".cache").mkdir()
    assert home() == temporary
    (temporary / ".cache").rmdir()
    assert home() == temporary / f"checkback-home-{os.getuid()}"


def test_a_folder_that_somebody_else_has_made_there_is_not_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (temporary / "theirs").mkdir()
    (temporary / f"checkback-home-{os.getuid()}").symlink_to("theirs")
    made = home()
    assert made.name.startswith("checkback-home-")
    assert not made.is_symlink()


def test_what_can_be_made_again_lies_where_the_environment_says(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(temporary / "cache"))
    monkeypatch.setattr(module, "home", None)
    assert cache_folder() == temporary / "cache" / "checkback"
