"""Death at a named step: a hook of the job that ends processes when the harness has ordered so.

It runs inside the job, in the driver as in the tasks; the order is a file, which the first who claims it carries out.
A gate, a file too, holds the driver back before a batch.
"""

import json
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil
from pyspark import TaskContext

from streaming.batch.failpoints import Failpoint

_ORDER = "death.json"
_CANCEL = "cancel"
_GATE = "gate"
_AT_GATE = "gate.reached"
_LOOK_SECONDS = 0.02
_NAMED_SECONDS = 5.0


class Victim(StrEnum):
    """Who dies."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    WORKER = "worker"
    EVERYBODY_SLEEPS = "everybody sleeps"
    """Nobody dies: all processes of the job are stopped (SIGSTOP), the one that carries it out last."""
    SINK_WORKER = "sink's worker"
    """The Python worker that writes what this one, the state's of the same partition, gives."""
    WORKER_HELD = "worker held"
    """It is stopped (SIGSTOP), so that who waits for its rows has read all that came; the harness kills it then."""
    FUNCTION = "function"
    """No process: the function that is run raises."""
    NOBODY = "nobody"
    """The batch continues after a pause, in which the harness does something to it."""


@dataclass(frozen=True)
class Order:
    """What is to happen when a task gets to the step for the ``after``-th time, or the driver does."""

    step: Failpoint
    victim: Victim
    after: int = 1
    pause_seconds: float = 0.0
    """How long the one who carries it out waits before it continues, if it lives."""


def give(folder: Path, order: Order) -> None:
    """Order a death; there is one order at a time."""
    draft = folder / f"{_ORDER}.draft"
    draft.write_text(json.dumps(asdict(order)), encoding="utf-8")
    draft.rename(folder / _ORDER)


def carried_out(folder: Path) -> bool:
    """Whether the last order has been claimed."""
    return not (folder / _ORDER).exists()


def withdraw(folder: Path) -> None:
    """Take back an order that nobody has claimed."""
    (folder / _ORDER).unlink(missing_ok=True)


def claimed_by(folder: Path) -> psutil.Process:
    """Who has carried out the last order; there is one that did."""
    newest = max(folder.glob(f"{_ORDER}.done-*"), key=lambda done: done.stat().st_mtime_ns)
    return psutil.Process(int(newest.name.rpartition("-")[2]))


def order_cancelling(folder: Path) -> None:
    """Have the driver cancel all tasks that run."""
    (folder / _CANCEL).touch()


def cancelling_ordered(folder: Path) -> bool:
    """Whether that was ordered since the last time somebody asked."""
    try:
        (folder / _CANCEL).unlink()
    except FileNotFoundError:
        return False
    return True


def close_gate(folder: Path) -> None:
    """From now on the driver stands still where a batch starts: what is written now will be in the one after it."""
    (folder / _AT_GATE).unlink(missing_ok=True)
    (folder / _GATE).touch()


def at_gate(folder: Path) -> bool:
    """Whether the driver has come to the gate."""
    return (folder / _AT_GATE).exists()


def open_gate(folder: Path) -> None:
    """Let it continue."""
    (folder / _GATE).unlink(missing_ok=True)


@dataclass(frozen=True)
class DeathWatch:
    """The hook; ``driver`` is the process id of the driver's Python."""

    folder: str
    driver: int
    _reached: Counter[Failpoint] = field(default_factory=Counter, compare=False)
    """How often this task has got to each step: a task has a copy of its own."""

    def __call__(self, step: Failpoint, _batch: int) -> None:
        """Carry out an order for this step, if there is one and nobody else has claimed it."""
        self._reached[step] += 1
        if step is Failpoint.BATCH_STARTS:
            self._wait_at_gate()
        try:
            order = json.loads((Path(self.folder) / _ORDER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        if order["step"] != step or self._reached[step] < order["after"]:
            return
        done = Path(self.folder) / f"{_ORDER}.done-{os.getpid()}"
        try:
            (Path(self.folder) / _ORDER).rename(done)
        except FileNotFoundError:  # somebody else was quicker
            return
        done.touch()
        self._carry_out(Victim(order["victim"]))
        time.sleep(order["pause_seconds"])

    def _wait_at_gate(self) -> None:
        folder = Path(self.folder)
        while (folder / _GATE).exists():
            (folder / _AT_GATE).touch()
            time.sleep(_LOOK_SECONDS)

    def _carry_out(self, victim: Victim) -> None:
        if victim is Victim.WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        elif victim is Victim.EXECUTOR:
            executor = next(parent for parent in psutil.Process().parents() if parent.name() == "java")
            executor.kill()
        elif victim is Victim.DRIVER:
            kill_driver(self.driver)
        elif victim is Victim.SINK_WORKER:
            sink = _sink_worker()
            if sink is not None:
                sink.kill()
        elif victim is Victim.WORKER_HELD:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif victim is Victim.FUNCTION:
            raise RuntimeError("The function raised, as ordered.")
        elif victim is Victim.EVERYBODY_SLEEPS:
            send_to_all(self.driver, signal.SIGSTOP)


def _sink_worker() -> psutil.Process | None:
    """That of this task's state partition, by its name (``name_worker``). None when it is dead already."""
    context = TaskContext.get()
    name = f"cb-sink-{context.partitionId() if context else 0}"
    daemon = psutil.Process().parent()
    deadline = time.monotonic() + _NAMED_SECONDS
    while time.monotonic() < deadline:  # it takes its name when it has been told what to do
        for one in daemon.children() if daemon else ():
            with suppress(psutil.NoSuchProcess):
                if one.name() == name:
                    return one
        time.sleep(_LOOK_SECONDS)
    return None


def kill_driver(python: int) -> None:
    """SIGKILL to both halves of the driver, its JVM and its Python; executors and workers live on, as zombies do."""
    driver = psutil.Process(python)
    for child in [*(child for child in driver.children() if child.name() == "java"), driver]:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def send_to_all(python: int, number: int) -> None:
    """A signal to every process of a job, the caller last if it is one of them."""
    driver = psutil.Process(python)
    processes = {process.pid for process in [driver, *driver.children(recursive=True)]}
    for process in sorted(processes, key=lambda pid: pid == os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(process, number)
