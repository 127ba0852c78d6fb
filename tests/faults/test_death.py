"""Death at a step, in processes of their own."""

import multiprocessing
import os
import signal
from pathlib import Path

from streaming.batch.failpoints import Failpoint
from torture.death import DeathWatch, Order, Victim, carried_out, give, withdraw

_SPAWN = multiprocessing.get_context("spawn")


def _reach(folder: str, step: Failpoint) -> None:
    DeathWatch(folder, os.getpid())(step, 1)


def _exit_code(folder: Path, step: Failpoint) -> int | None:
    process = _SPAWN.Process(target=_reach, args=(str(folder), step))
    process.start()
    process.join(60)
    return process.exitcode


def test_without_an_order_nobody_dies(tmp_path: Path) -> None:
    assert _exit_code(tmp_path, Failpoint.IN_TRANSACTION) == 0


def test_an_order_is_for_its_step_and_for_one(tmp_path: Path) -> None:
    give(tmp_path, Order(Failpoint.IN_TRANSACTION, Victim.WORKER))
    assert _exit_code(tmp_path, Failpoint.BATCH_STARTS) == 0
    assert not carried_out(tmp_path)
    assert _exit_code(tmp_path, Failpoint.IN_TRANSACTION) == -signal.SIGKILL
    assert carried_out(tmp_path)
    assert _exit_code(tmp_path, Failpoint.IN_TRANSACTION) == 0


def test_an_order_can_be_withdrawn(tmp_path: Path) -> None:
    give(tmp_path, Order(Failpoint.IN_TRANSACTION, Victim.WORKER))
    withdraw(tmp_path)
    assert _exit_code(tmp_path, Failpoint.IN_TRANSACTION) == 0


def test_the_driver_can_be_the_one(tmp_path: Path) -> None:
    give(tmp_path, Order(Failpoint.BATCH_ENDS, Victim.DRIVER))
    assert _exit_code(tmp_path, Failpoint.BATCH_ENDS) == -signal.SIGKILL
