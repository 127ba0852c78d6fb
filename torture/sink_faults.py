"""Faults of the stores that hold the tables: PostgreSQL, S3, and another process at a Delta table."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum

from torture.answers import LosingProxy
from torture.death import Order, Victim
from torture.decks import SinkFault
from torture.local_postgresql import LocalPostgresql, Stop
from torture.local_s3 import LocalS3
from torture.machine import disk_of, have_carried_out, kill, refuse_given_up, stand_still
from torture.processes import all_of
from torture.schedule import Round
from torture.sinks_ground import SinksGround
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_AWAY_SECONDS = 10.0
_STOPPED_SECONDS = (3.0, 15.0)


def strike_sinks(system: System, this: Round) -> float:
    """Do it, wait until messages are delivered, and return when recovery began (``time.time()``).

    Raises:
        NotRecoveredError: the fault could not be done, nothing was delivered, or a job ended for good.
    """
    ground = system.ground
    assert isinstance(ground, SinksGround)  # noqa: S101  (the deck says so)
    _FAULTS[this.fault](system, ground, this)
    since = time.time()
    system.recoveries.append(system.wait_for_delivery(since))
    refuse_given_up(system, this)
    return since


def _stop_job(system: System, _ground: SinksGround, this: Round) -> None:
    seconds = random.Random(this.seed).uniform(*_STOPPED_SECONDS)  # noqa: S311  (dice, no secret)
    stand_still(system, all_of(system.job.pid), seconds)


def _lose(system: System, proxy: LosingProxy) -> None:
    before = proxy.lost
    proxy.lose_one()
    system.wait_until(lambda: proxy.lost > before, GIVE_UP_SECONDS, "no answer could be lost")


def _crash_database(system: System, ground: SinksGround, _this: Round) -> None:
    """A job is connected only while it starts or publishes a batch."""
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'checkback'"
    with ground.server.connect() as connection:
        there = connection.execute
        system.wait_until(lambda: bool(there(query).fetchall()), GIVE_UP_SECONDS, "no job was connected to PostgreSQL")
    ground.server.stop(Stop.IMMEDIATE)
    ground.server.start()


@contextmanager
def read_only(server: LocalPostgresql) -> Iterator[None]:
    """Each transaction that begins meanwhile can only read, as after a failover to a replica."""

    def be(value: bytes) -> None:
        with server.connect() as connection:
            connection.execute(b"ALTER SYSTEM SET default_transaction_read_only = " + value)
            connection.execute("SELECT pg_reload_conf()")

    be(b"on")
    try:
        yield
    finally:
        be(b"off")


@contextmanager
def _without(store: LocalPostgresql | LocalS3) -> Iterator[None]:
    if isinstance(store, LocalS3):
        store.kill()
    else:
        store.stop(Stop.FAST)
    try:
        yield
    finally:
        store.start()


def _during(system: System, state: AbstractContextManager[None]) -> None:
    with state:
        system.supervise_for(_AWAY_SECONDS)


def _compact(system: System, ground: SinksGround, this: Round) -> None:
    """1. The driver dies at a step of publishing.  2. Another process compacts both tables.  3. The job starts.

    What that process has not synchronized a later power loss may take from it, so the disk is settled.
    """
    assert this.step is not None  # noqa: S101  (the deck says so)
    have_carried_out(system, Order(this.step, Victim.DRIVER))  # 1
    kill(system.job)
    for folder, address, options in ground.delta_tables:  # 2
        if (folder / "_delta_log").is_dir():
            compact_in_a_process(address, options)
    disk_of(system).settle()
    system.restart_job()  # 3


def compact_in_a_process(address: str, options: Mapping[str, str]) -> int:
    """Do so, and return how many files were replaced. Raises NotRecoveredError when it failed."""
    command = [sys.executable, "-m", "torture.compacting", address, json.dumps(dict(options))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (our own module)
    if done.returncode:
        raise NotRecoveredError(f"{address} was not compacted: {done.stderr[-2_000:]}")
    return int(done.stdout)


_FAULTS: Mapping[StrEnum, Callable[[System, SinksGround, Round], object]] = {
    SinkFault.JOB_STOPPED: _stop_job,
    SinkFault.COMMIT_ANSWER_LOST: lambda system, ground, _: _lose(system, ground.commits),
    SinkFault.DATABASE_CRASHED: _crash_database,
    SinkFault.DATABASE_AWAY: lambda system, ground, _: _during(system, _without(ground.server)),
    SinkFault.DATABASE_READ_ONLY: lambda system, ground, _: _during(system, read_only(ground.server)),
    SinkFault.S3_AWAY: lambda system, ground, _: _during(system, _without(ground.s3)),
    SinkFault.S3_STOPPED: lambda system, ground, _: stand_still(system, all_of(ground.s3.pid), max(_STOPPED_SECONDS)),
    SinkFault.S3_ANSWER_LOST: lambda system, ground, _: _lose(system, ground.puts),
    SinkFault.COMPACTED: _compact,
}
OF_SINKS = frozenset(_FAULTS)
"""Faults that :func:`strike_sinks` does."""
