"""A job's checkpoint folder, looked at once a second: how large it is, and when batches began and ended."""

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench.outage_figures import Batch


class Size(NamedTuple):
    """The folder's size in bytes at a moment (``time.time()``)."""

    at: float
    bytes: int


class CheckpointWatch(threading.Thread):
    """Samples until stopped. A batch begins when its offsets are written, and ends when its commit is."""

    def __init__(self, folder: Path, every_seconds: float = 1.0) -> None:
        super().__init__(name="checkpoint-watch", daemon=True)
        self.sizes: list[Size] = []
        self._folder = folder
        self._every_seconds = every_seconds
        self._began: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.wait(self._every_seconds):
            self.look()

    def look(self) -> None:
        """Sample now."""
        self.sizes.append(Size(time.time(), folder_content(self._folder).bytes))
        for log, times in (("offsets", self._began), ("commits", self._ended)):
            times |= {number: at for number, at in _written(self._folder / log).items() if number not in times}

    def stop(self) -> None:
        """Sample no more."""
        self._stopping.set()
        self.join()

    @property
    def batches(self) -> list[Batch]:
        """Those that began and ended; one that a killed job left half done lasts until another job has finished it."""
        return [Batch(self._began[number], ended) for number, ended in self._ended.items() if number in self._began]

    def batches_between(self, began: float, ended: float) -> list[Batch]:
        """Those that began and ended in a window (``time.time()``)."""
        return [batch for batch in self.batches if began <= batch.began and batch.ended <= ended]


class Content(NamedTuple):
    """Of a folder and all below it."""

    files: int
    bytes: int


def folder_content(folder: Path) -> Content:
    """Now; files that vanish meanwhile count as nothing."""
    files = total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118  (thousands of files)
                files += 1
    return Content(files, total)


def _written(log: Path) -> dict[int, float]:
    """Modification time of each batch's file."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(log) as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    found[int(entry.name)] = entry.stat().st_mtime
    return found
