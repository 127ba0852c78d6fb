"""What a job holds, sampled: by process, by kind of thing, and in its folders."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.checkpoint_watch import folder_content
from bench.cost.figures import seconds_without_jit
from bench.cost.groups import CpuSeconds
from bench.lasting.java import AskedJava
from bench.memory import is_java, memory_of, tree_of

_PROC = Path("/proc")
_MIB = 2**20


class Sample(NamedTuple):
    """At a moment (``time.time()``)."""

    at: float
    figures: Mapping[str, float]


class Sampler(threading.Thread):
    """Of one job, until stopped. ``folders`` by the names that they have in the figures."""

    def __init__(
        self, pid: int, folders: Mapping[str, Path], used: Callable[[], CpuSeconds], every_seconds: float = 5.0
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self._pid = pid
        self._folders = folders
        self._used = used
        self._every_seconds = every_seconds
        self._java = [AskedJava(member) for member in tree_of(pid) if is_java(member)]
        self._stopping = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        at, before = time.time(), self._used()
        while not self._stopping.wait(self._every_seconds):
            now, used = time.time(), self._used()
            cores = {"cpu_cores": seconds_without_jit(before, used) / (now - at)}
            self.samples.append(Sample(now, cores | held_by(self._pid) | self._in_java() | self._in_folders()))
            at, before = now, used

    def stop(self) -> list[Sample]:
        """Sample no more."""
        self._stopping.set()
        self.join()
        return self.samples

    def _in_java(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for java in self._java:
            with contextlib.suppress(OSError):  # too busy to answer in time: there is a next sample
                found |= java.figures()
        return found

    def _in_folders(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, folder in self._folders.items():
            content = folder_content(folder)
            found |= {f"{name}_files": float(content.files), f"{name}_mib": content.bytes / _MIB}
        return found


def held_by(pid: int) -> dict[str, float]:
    """What a job's processes hold: ``pid`` is the driver's Python."""
    found = dict.fromkeys(("java_mib", "driver_mib", "workers_mib", "processes", "descriptors", "threads"), 0.0)
    for member in tree_of(pid):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            kind = "driver" if member == pid else "java" if is_java(member) else "workers"
            found[f"{kind}_mib"] += memory_of(member)
            found["descriptors"] += _entries(member, "fd")
            found["threads"] += _entries(member, "task")
            found["processes"] += 1
    return found


def _entries(pid: int, folder: str) -> int:
    return sum(1 for _ in (_PROC / str(pid) / folder).iterdir())
