"""Faults of the job's machine, which loses power, and of whoever stands still for a while."""

import random
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import psutil

from torture.death import Order, carried_out, give, withdraw
from torture.decks import MachineFault
from torture.disk import Disk
from torture.processes import JobProcess, all_of, send
from torture.schedule import Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_PAUSE_SECONDS = (5.0, 60.0)


def lose_power(system: System, _this: Round) -> float:
    """1. The job stands still.  2. What was not synchronised is gone, then the job.  3. It starts on what is left."""
    job, disk = system.job, disk_of(system)
    job.suspend()  # 1
    disk.cut()  # 2
    kill(job)
    disk.unmount()
    disk.mount()
    return goes_on(system)  # 3


def goes_on(system: System) -> float:
    """Start the job, which must deliver again.

    Returns:
        When it was started (``time.time()``).

    Raises:
        NotRecoveredError: it ended by itself, or delivered nothing.
    """
    since = time.time()
    system.restart_job()
    job = system.job
    deadline = time.monotonic() + GIVE_UP_SECONDS

    def came_or_ended() -> bool:
        return job.exit_status is not None or system.delivered_after(since)

    system.wait_until(came_or_ended, deadline - time.monotonic(), "nothing new was delivered", supervised=False)
    if job.exit_status is not None:
        system.note_stop(job)
        raise NotRecoveredError(f"The job did not continue: {system.stops[-1]}")
    return since


def pause(system: System, this: Round) -> float:
    """1. Somebody stands still.  2. What ends meanwhile is started again.  3. It goes on; nobody may be down for good.

    Only what an orchestrator would leave down ends the run: a process that ends with 75 is started again.
    """
    chance = random.Random(this.seed)  # noqa: S311  (dice, no secret)
    found: list[int] = []

    def somebody() -> bool:
        found[:] = _PAUSED[this.fault](system)
        return bool(found)

    system.wait_until(somebody, GIVE_UP_SECONDS, "there was nobody to pause")
    send(found, signal.SIGSTOP)  # 1
    try:
        system.supervise_for(chance.uniform(*_PAUSE_SECONDS))  # 2
    finally:
        send(found, signal.SIGCONT)  # 3
    since = time.time()
    system.recoveries.append(system.wait_for_delivery(since))
    refuse_given_up(system, this)
    return since


def stand_still(system: System, processes: Sequence[int], seconds: float) -> float:
    """SIGSTOP, and SIGCONT some seconds later.

    Returns:
        When they went on (``time.time()``).
    """
    send(processes, signal.SIGSTOP)
    try:
        system.supervise_for(seconds)
    finally:
        send(processes, signal.SIGCONT)
    return time.time()


def have_carried_out(system: System, order: Order) -> None:
    """Order a death, and wait until a process of the job has carried the order out.

    Raises:
        NotRecoveredError: no batch reached the step.
    """
    folder = system.ground.folder
    give(folder, order)
    try:
        system.wait_until(lambda: carried_out(folder), GIVE_UP_SECONDS, f"no batch came to the step '{order.step}'")
    finally:
        withdraw(folder)


def refuse_given_up(system: System, this: Round) -> None:
    """Raises NotRecoveredError when somebody has ended for good in this round."""
    if system.given_up:
        raise NotRecoveredError(f"Round {this.number}, {this}: {' | '.join(system.given_up)}.")


def _ids(processes: Iterable[psutil.Process]) -> list[int]:
    return [process.pid for process in processes]


def _broker(system: System) -> list[int]:
    supervisor = system.ground.broker.pid
    return all_of(supervisor) if supervisor else []


_PAUSED: Mapping[StrEnum, Callable[[System], list[int]]] = {
    MachineFault.PYTHON_PAUSED: lambda system: [system.job.pid],
    MachineFault.JVM_PAUSED: lambda system: _ids(system.job.driver_jvms()),
    MachineFault.EXECUTOR_PAUSED: lambda system: _ids(system.job.executors()),
    MachineFault.WORKERS_PAUSED: lambda system: _ids(system.job.workers()),
    MachineFault.JOB_PAUSED: lambda system: all_of(system.job.pid),
    MachineFault.CHECK_SERVICE_PAUSED: lambda system: [system.checks.pid],
    MachineFault.PRODUCER_PAUSED: lambda system: [system.shop.pid],
    MachineFault.BROKER_PAUSED: _broker,
}
PAUSED = frozenset(_PAUSED)
"""Faults that :func:`pause` does."""


def disk_of(system: System) -> Disk:
    """The run's own, which these faults are for."""
    disk = system.ground.disk
    assert disk is not None  # noqa: S101  (the deck says so)
    return disk


def kill(job: JobProcess) -> None:
    """SIGKILL to all of it, and wait until nothing of it is left."""
    processes = [*job.executors(), *job.workers()]
    job.kill()
    psutil.wait_procs(processes, timeout=GIVE_UP_SECONDS)
