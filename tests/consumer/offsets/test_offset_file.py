"""Offsets of a broadcasting consumer: whatever happens in the midst of writing, one whole file is there."""

import logging
import os
from pathlib import Path

import pytest

from checkback.consumer import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.offsets.offset_file import OffsetFile, default_file
from checkback.exceptions import ConfigurationError, ConsumerError

ORDERS, RETURNS = TopicPartition("orders", 0), TopicPartition("returns", 3)


def stored(path: Path) -> dict[TopicPartition, Stored]:
    file = OffsetFile(path)
    try:
        return file.stored([ORDERS, RETURNS])
    finally:
        file.close()


def write(path: Path, *offsets: dict[TopicPartition, Stored]) -> None:
    file = OffsetFile(path)
    for one in offsets:
        file.store(one)
    file.close()


def test_what_is_stored_is_there_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "offsets.json"
    write(path, {ORDERS: Stored(3, "cb1;3;1;0;0;;")}, {RETURNS: Stored(7)})
    assert stored(path) == {ORDERS: Stored(3, "cb1;3;1;0;0;;"), RETURNS: Stored(7)}


@pytest.mark.parametrize("torn", [b"", b"{", b'{"version": 1, "offs', b"\xff\xfe", b"[]", b'{"version": 2}'])
def test_a_torn_file_is_tolerated(tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "offsets.json"
    write(path, {ORDERS: Stored(3)}, {ORDERS: Stored(4)})
    path.write_bytes(torn)
    assert stored(path) == {ORDERS: Stored(3)}
    assert "messages since are given again" in caplog.text


def test_with_both_torn_it_begins_as_one_that_has_none_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets.json"
    write(path, {ORDERS: Stored(3)}, {ORDERS: Stored(4)})
    path.write_text("{")
    path.with_name("offsets.json.bak").write_text("{")
    assert stored(path) == {}
    assert "No stored offsets can be read" in caplog.text


def test_none_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert stored(tmp_path / "offsets.json") == {}
    assert caplog.text == ""


@pytest.mark.parametrize("step", ["open", "fsync", "first replace", "second replace"])
def test_whoever_dies_in_the_midst_of_writing_leaves_one_that_is_whole(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets.json"
    write(path, {ORDERS: Stored(2)}, {ORDERS: Stored(3)})
    file = OffsetFile(path)
    replaced = 0
    replace = Path.replace

    def dies(*_: object, **__: object) -> None:
        raise OSError(5, "died")

    def dies_at(self: Path, target: Path) -> Path:
        nonlocal replaced
        replaced += 1
        if replaced == (1 if step == "first replace" else 2):
            dies()
        return replace(self, target)

    with monkeypatch.context() as patched:
        if step == "open":
            patched.setattr(Path, "open", dies)
        elif step == "fsync":
            patched.setattr(os, "fsync", dies)
        else:
            patched.setattr(Path, "replace", dies_at)
        with pytest.raises(ConsumerError, match="cannot be written"):
            file.store({ORDERS: Stored(4)})
    file.close()
    assert stored(path) == {ORDERS: Stored(3)}


def test_one_file_is_for_one_consumer(tmp_path: Path) -> None:
    first = OffsetFile(tmp_path / "offsets.json")
    with pytest.raises(ConfigurationError, match="give each its own offset_file"):
        OffsetFile(tmp_path / "offsets.json")
    first.close()
    OffsetFile(tmp_path / "offsets.json").close()


def test_where_it_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be the offset_file"):
        OffsetFile(tmp_path / "file" / "offsets.json")


def test_a_user_without_a_home_folder_has_to_name_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)
    with pytest.raises(ConfigurationError, match=r"group shop .* user 987654321 has none: name an offset_file"):
        default_file("shop")


def test_any_group_has_a_file_of_its_own() -> None:
    names = {default_file(group).name for group in ("a", "a/b", "a%2fb", "../a", "ä")}
    assert len(names) == 5
    assert not any("/" in name for name in names)
