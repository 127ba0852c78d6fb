"""CPU time of a job and its broker, by process and by what a thread does, from Linux's /proc."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.memory import tree_of

EXECUTOR, JIT, GARBAGE, STREAM = "JVM executor", "JVM JIT", "JVM GC", "JVM stream thread"
OTHER_JAVA, ENDED_JAVA = "JVM other", "JVM ended threads"
STATE, SINK, OTHER_PYTHON, DRIVER = "Python state", "Python sink", "Python other", "Python driver"
BROKER = "broker"
OTHERS, MACHINE = "others", "machine"
"""Not of the job: what all other processes have used but the measurement's own, and what all cores could have given."""
GROUPS = (EXECUTOR, JIT, GARBAGE, STREAM, OTHER_JAVA, ENDED_JAVA, STATE, SINK, OTHER_PYTHON, DRIVER, BROKER)

CpuSeconds = dict[str, float]
"""By group, since the job began."""

_PROC = Path("/proc")
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
_JAVA = (
    # /proc has the first 15 characters of a thread's name
    (EXECUTOR, ("Executor task",)),  # with an l while it works, with an i while it is idle
    (JIT, ("C1 Compiler", "C2 Compiler")),
    (GARBAGE, ("GC Thread", "ParGC", "G1 ", "VM Thread", "ZDriver", "ZWorker", "Shenandoah")),
    (STREAM, ("stream executio",)),
)
# A worker takes such a name as a task begins (streaming.python_worker.preparation). The sink alone says it is done.
_WORKERS = ((STATE, "cb-state"), (SINK, "cb-sink"), (SINK, "cb-idle"))


class Used(NamedTuple):
    """A process or a thread: its name now, and what it has used."""

    name: str
    seconds: float


class CpuOfJob:
    """Adds up what is used from one look to the next, by the name that it has then.

    So a worker's time goes to what it does at the moment, and what a thread has used stays counted when it has ended;
    what it used after the last look is known from its process alone, and has a group of its own.
    """

    def __init__(self, job: int, broker: int | None) -> None:
        self._job = job
        self._broker = broker
        self._seconds = dict.fromkeys(GROUPS, 0.0)
        self._last: dict[tuple[int, int], float] = {}
        self._workers: list[int] = []
        self._java_threads = 0.0
        self._java: dict[int, float] = {}

    def look(self) -> CpuSeconds:
        """At all processes and threads."""
        self._workers = []
        for pid in tree_of(self._job):
            found = _process(pid)
            if found is not None and found.name.startswith("java"):
                self._look_at_java(pid, found.seconds)
            elif found is not None and pid == self._job:
                self._add(DRIVER, (pid, 0), found.seconds)
            else:
                self._workers.append(pid)
        self.look_at_workers()
        for pid in tree_of(self._broker) if self._broker else ():
            if (found := _process(pid)) is not None:
                self._add(BROKER, (pid, 0), found.seconds)
        busy, self._seconds[MACHINE] = _machine()
        self._seconds[OTHERS] = busy - sum(found.seconds for pid in tree_of(os.getpid()) if (found := _process(pid)))
        self._seconds[ENDED_JAVA] = sum(self._java.values()) - self._java_threads
        return self._seconds.copy()

    def look_at_workers(self) -> None:
        """At Python's workers, which change what they do several times a batch."""
        for pid in self._workers:
            found = _process(pid)
            if found is not None:
                self._add(_first(_WORKERS, found.name, OTHER_PYTHON), (pid, 0), found.seconds)

    def _look_at_java(self, pid: int, seconds: float) -> None:
        for thread, found in _threads(pid):
            group = next((group for group, names in _JAVA if found.name.startswith(names)), OTHER_JAVA)
            self._java_threads += self._add(group, (pid, thread), found.seconds)
        self._java[pid] = seconds

    def _add(self, group: str, who: tuple[int, int], seconds: float) -> float:
        more = max(0.0, seconds - self._last.get(who, 0.0))
        self._last[who] = seconds
        self._seconds[group] += more
        return more


def _first(names: tuple[tuple[str, str], ...], name: str, otherwise: str) -> str:
    return next((group for group, begins in names if name.startswith(begins)), otherwise)


def _threads(pid: int) -> Iterator[tuple[int, Used]]:
    with contextlib.suppress(OSError):  # the process has ended meanwhile
        for entry in os.scandir(_PROC / str(pid) / "task"):
            if (found := _used(Path(entry.path))) is not None:
                yield int(entry.name), found


def _process(pid: int) -> Used | None:
    return _used(_PROC / str(pid))


def _machine() -> tuple[float, float]:
    """Seconds that all cores were busy, and that have passed on them."""
    ticks = [int(number) for number in (_PROC / "stat").read_text(encoding="utf-8").split(maxsplit=9)[1:9]]
    user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts
    return busy * _TICK_SECONDS, (busy + idle + waiting + stolen) * _TICK_SECONDS


def _used(folder: Path) -> Used | None:
    """None: it has ended."""
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # pid (name) state parent ... utime stime: the name may hold anything
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Used(head.partition("(")[2], (int(fields[11]) + int(fields[12])) * _TICK_SECONDS)
