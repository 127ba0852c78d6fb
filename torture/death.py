"""Death at a named step: a witness of the sink that ends processes when the harness has ordered so.

It runs inside the job, in the driver as in the tasks; the order is a file, which the first who claims it carries out.
"""

import json
import os
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from streaming.steps import Step

_ORDER = "death.json"


class Victim(StrEnum):
    """Who dies."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    WORKER = "worker"
    EVERYBODY_SLEEPS = "everybody sleeps"
    """Nobody dies: all processes of the job are stopped (SIGSTOP), the one that carries it out last."""


@dataclass(frozen=True)
class Order:
    """What is to happen, at the next batch that comes to the step."""

    step: Step
    victim: Victim


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


@dataclass(frozen=True)
class DeathWatch:
    """The witness; ``driver`` is the process id of the driver's Python."""

    folder: str
    driver: int

    def __call__(self, step: Step, _batch: int) -> None:
        """Carry out an order for this step, if there is one and nobody else has claimed it."""
        try:
            order = json.loads((Path(self.folder) / _ORDER).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        if order["step"] != step:
            return
        with suppress(FileNotFoundError):
            (Path(self.folder) / _ORDER).rename(Path(self.folder) / f"{_ORDER}.done-{os.getpid()}")
            self._carry_out(Victim(order["victim"]))

    def _carry_out(self, victim: Victim) -> None:
        if victim is Victim.WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        elif victim is Victim.EXECUTOR:
            executor = next(parent for parent in psutil.Process().parents() if parent.name() == "java")
            executor.kill()
        elif victim is Victim.DRIVER:
            kill_driver(self.driver)
        else:
            send_to_all(self.driver, signal.SIGSTOP)


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
