"""Memory of a process and all that it has started, from Linux's /proc."""

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_MIB = 1024


@dataclass(frozen=True)
class Peak:
    """The most that was seen in one sample, in MiB."""

    tree: float = 0.0
    """All processes; pages that several share count once."""
    java: float = 0.0
    python: float = 0.0

    def or_more(self, other: "Peak") -> "Peak":
        """The larger of both, figure by figure."""
        return Peak(max(self.tree, other.tree), max(self.java, other.java), max(self.python, other.python))

    def rounded(self) -> "Peak":
        """To a tenth of a MiB."""
        return Peak(round(self.tree, 1), round(self.java, 1), round(self.python, 1))


class MemoryWatch(threading.Thread):
    """Samples until stopped."""

    def __init__(self, pid: int, every_seconds: float = 1.0) -> None:
        super().__init__(daemon=True)
        self.peak = Peak()
        self._pid = pid
        self._every_seconds = every_seconds
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.wait(self._every_seconds):
            self.peak = self.peak.or_more(memory_of_tree(self._pid))

    def stop(self) -> Peak:
        """The peak until now."""
        self._stopping.set()
        self.join()
        return self.peak


def memory_of_tree(pid: int) -> Peak:
    """Proportional set sizes of a process and its descendants, now, in MiB."""
    java = python = 0.0
    for member in tree_of(pid):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if is_java(member):
                java += memory_of(member)
            else:
                python += memory_of(member)
    return Peak(java + python, java, python)


def is_java(pid: int) -> bool:
    """Whether a process is one.

    Raises:
        OSError: it has ended.
    """
    return (_PROC / str(pid) / "comm").read_text(encoding="utf-8").startswith("java")


def memory_of(pid: int) -> float:
    """Proportional set size of a process, now, in MiB.

    Raises:
        OSError: it has ended.
    """
    rollup = (_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / _MIB


def tree_of(pid: int) -> list[int]:
    """A process and its descendants, now."""
    parents: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # pid (name) state parent ...: the name may hold anything
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += parents.get(member, [])
    return found
