"""What a batch rests on is on the disk before anything of the batch is in Kafka.

Spark writes its files and synchronises none of them: after a power loss those of the last half minute are empty, while
Kafka, on other machines, has the batches that followed from them.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_AT_ONCE = 8
"""Files of one journal entry: the disk is waited for a few times, not once for each of them."""
_UNFINISHED = (".tmp", ".tmp.crc", ".unfinished", ".unfinished.crc")


class _Named(NamedTuple):
    path: str
    inode: int
    changed_ns: int
    """An inode may be used again, under the same name."""


class DurableFolder:
    """A local folder whose new files are brought to the disk when told to.

    One thread at a time. What is on other file systems (HDFS, an object store) is theirs to keep.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: set[_Named] = set()

    def synchronise(self) -> None:
        """Return when all that has a final name in the folder, and in those in it, would outlive a power loss.

        Raises:
            OSError: the disk does not take it.
        """
        found = set(_named(str(self._folder)))
        new = found - self._known
        if not new:
            return
        with ThreadPoolExecutor(_AT_ONCE, "durable") as pool:
            list(pool.map(_synchronise, (name.path for name in new)))
            # then the names; the file system may have kept them with the bytes, and then this costs nothing
            list(pool.map(_synchronise, {os.path.dirname(name.path) for name in new}))  # noqa: PTH120  (each batch)
        self._known = found


def _named(folder: str) -> Iterator[_Named]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:  # Spark cleans up meanwhile
        for entry in entries:
            if entry.name.endswith(_UNFINISHED):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield _Named(entry.path, entry.inode(), 0)
                yield from _named(entry.path)
            else:
                with suppress(FileNotFoundError):
                    about = entry.stat()
                    yield _Named(entry.path, about.st_ino, about.st_ctime_ns)


def _synchronise(path: str) -> None:
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
