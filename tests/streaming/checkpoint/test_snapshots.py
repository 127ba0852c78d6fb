"""Which snapshots of the state are what was written: what Spark itself would find out, or stumble over."""

import io
import json
import zipfile
from typing import cast

from streaming.checkpoint.folder import Checkpoint
from streaming.checkpoint.repair import torn_snapshots


class Folder:
    """Two state partitions; the second has files of other kinds only."""

    def __init__(self, content: bytes, sizes: dict[str, int]) -> None:
        self._content = content
        self._sizes = sizes

    def names(self, folder: str) -> list[str]:
        files = {"state/0": ["0", "1", "_metadata"], "state/0/0": ["7.zip", "7.changelog", "SSTs"]}
        return files.get(folder, ["8.changelog", ".7.zip.crc"])

    def read(self, name: str) -> bytes:
        assert name == "state/0/0/7.zip"
        return self._content

    def sizes(self, folder: str) -> dict[str, int]:
        assert folder == "state/0/0/SSTs"
        return self._sizes


def torn(content: bytes, sizes: dict[str, int]) -> tuple[str, ...]:
    return torn_snapshots(cast("Checkpoint", Folder(content, sizes)))


def packed(metadata: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("metadata", metadata)
    return content.getvalue()


def test_one_that_is_whole_with_all_its_files_is_kept() -> None:
    """As Spark 4.2 writes it: a version, and JSON."""
    files = [{"localFileName": "000018.sst", "dfsSstFileName": "000018-8700.sst", "sizeBytes": 7675}]
    snapshot = packed("v1\n" + json.dumps({"sstFiles": files, "numKeys": 1}))
    assert torn(snapshot, {"000018-8700.sst": 7675, "another.sst": 1}) == ()
    assert torn(packed('v1\n{"numKeys":0}'), {}) == (), "of an empty state"
    assert torn(snapshot, {"000018-8700.sst": 0}) == ("state/0/0/7.zip",)
    assert torn(snapshot, {}) == ("state/0/0/7.zip",)


def test_one_that_is_not_what_was_written_is_torn() -> None:
    snapshot = packed('v1\n{"numKeys":0}')
    for content in (b"", snapshot[:40], bytes(len(snapshot)), packed(""), packed("v1\n[]"), packed("v1\n{")):
        assert torn(content, {}) == ("state/0/0/7.zip",)
