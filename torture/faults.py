"""How each fault is done to the running system."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import psutil

from streaming.batch.failpoints import Failpoint
from torture.changes import (
    change_settings,
    grow_topic,
    make_topic_late,
    start_second_job,
    step_clock_ahead,
    step_clock_back_an_hour,
    take_broker_away,
    take_leader_away,
)
from torture.checkpoint_faults import fill_disk, make_disk_read_only, start_on_copy, start_on_older_copy
from torture.cluster_faults import OF_CLUSTER, strike
from torture.death import Order, Victim
from torture.decks import MachineFault, SinkFault
from torture.machine import PAUSED, have_carried_out, lose_power, pause
from torture.power import lose_broker, lose_shop
from torture.schedule import Fault, Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_SUSPENDED_SECONDS = 20.0
_BACK_BETWEEN_RUNS_SECONDS = 420


def inject(system: System, this: Round) -> float:
    """Do it, and bring the system back as an operator or an orchestrator would.

    Returns:
        When recovery began (``time.time()``).

    Raises:
        NotRecoveredError: the system did not do in time what it must.
    """
    return _FAULTS[this.fault](system, this)


def _kill_driver(system: System, this: Round) -> float:
    if this.step is None:
        system.job.kill_driver()
    else:
        have_carried_out(system, Order(this.step, Victim.DRIVER))
        system.job.wait(10)
    since = time.time()
    system.restart_job()
    return since


def _change_settings(system: System, this: Round) -> float:
    have_carried_out(system, Order(this.step or Failpoint.BATCH_ENDS, Victim.DRIVER))
    system.job.wait(10)
    return change_settings(system, this)


def _kill_executor(system: System, this: Round) -> float:
    if this.step is None:
        executors: list[psutil.Process] = []

        def found() -> bool:
            executors[:] = system.job.executors()
            return bool(executors)

        system.wait_until(found, GIVE_UP_SECONDS, "no executor was there")
        with suppress(psutil.NoSuchProcess):
            _dice(this).choice(executors).kill()
    else:
        have_carried_out(system, Order(this.step, Victim.EXECUTOR))
    return time.time()


def _kill_workers(system: System, this: Round) -> float:
    if this.step is None:
        for worker in system.job.workers():
            with suppress(psutil.NoSuchProcess):
                worker.kill()
    else:
        have_carried_out(system, Order(this.step, Victim.WORKER))
    return time.time()


def _suspend_job(system: System, this: Round) -> float:
    """1. Stop the job.  2. Another takes over and delivers.  3. After 20 s the old one goes on, and must end itself."""
    if this.step is None:  # 1
        system.job.suspend()
    else:
        have_carried_out(system, Order(this.step, Victim.EVERYBODY_SLEEPS))
    since = time.time()
    old = system.take_over()  # 2
    system.recoveries.append(system.wait_for_delivery(since))
    time.sleep(max(0.0, since + _SUSPENDED_SECONDS - time.time()))
    old.resume()  # 3
    system.wait_until(lambda: old.exit_status is not None, GIVE_UP_SECONDS, "the job that was suspended did not end")
    system.note_stop(old)
    if old.exit_status == 0:
        raise NotRecoveredError("The job that was suspended ended as if nothing had happened.")
    return time.time()


def _restart_broker(system: System, _this: Round) -> float:
    system.ground.broker.stop()
    system.ground.broker.start()
    return time.time()


def _kill_broker(system: System, _this: Round) -> float:
    system.ground.broker.kill()
    system.ground.broker.start()
    return time.time()


def _kill_check_service(system: System, _this: Round) -> float:
    system.checks.kill()
    return time.time()


def _kill_producer(system: System, _this: Round) -> float:
    system.shop.kill()
    return time.time()


def _tear_checkpoint(system: System, this: Round) -> float:
    """1. The driver dies.  2. A file of its checkpoint is cut short.  3. Repaired by the job itself, or put back."""
    executors = system.job.executors()
    system.job.kill_driver()  # 1
    psutil.wait_procs(executors, timeout=GIVE_UP_SECONDS)  # they would continue writing
    file, whole = _tear(system.ground.checkpoint, _dice(this))  # 2
    since = time.time()
    system.restart_job()
    job = system.job
    while job.exit_status is None:  # 3
        with suppress(NotRecoveredError):
            system.wait_for_delivery(since, seconds=1, supervised=False)
            return since
        if time.time() - since > GIVE_UP_SECONDS:
            raise NotRecoveredError(f"With {file} torn the job neither stopped nor delivered. It said: {job.said()}")
    system.note_stop(job, f"{file.parent.name}/{file.name} torn")
    file.write_bytes(whole)
    since = time.time()
    system.restart_job()
    return since


def _tear(checkpoint: Path, chance: random.Random) -> tuple[Path, bytes]:
    """Cut the newest file of one of the checkpoint's logs, or of its state, and say what it held."""
    kinds = {
        "commits": list(checkpoint.glob("commits/[0-9]*")),
        "offsets": list(checkpoint.glob("offsets/[0-9]*")),
        "state": [file for file in checkpoint.glob("state/0/*/*") if file.suffix in {".changelog", ".zip"}],
    }
    files = kinds[chance.choice([kind for kind, found in kinds.items() if found])]
    file = max(files, key=lambda found: (found.stat().st_mtime_ns, found.name))
    whole = file.read_bytes()
    file.write_bytes(whole[: chance.randrange(max(1, len(whole)))])
    return file, whole


def _step_clock_back(system: System, _this: Round) -> float:
    """Less than the clock tolerance, while the job runs and between two runs, and right again: the job continues."""
    for seconds, between_runs in ((-30, False), (-_BACK_BETWEEN_RUNS_SECONDS, True), (0, True)):
        if between_runs:
            system.job.kill_driver()
        system.ground.clock.set(seconds)
        since = time.time()
        if between_runs:
            system.restart_job()
        if seconds:
            system.recoveries.append(system.wait_for_delivery(since))
    return since


def _cut_database(system: System, _this: Round) -> float:
    """While a batch is being published there: a job has no connection at other times."""
    database = system.ground.postgresql
    if database is not None:
        system.wait_until(lambda: database.cut_connections() > 0, GIVE_UP_SECONDS, "nobody was connected to PostgreSQL")
    return time.time()


def _strike_sinks(system: System, this: Round) -> float:
    from torture.sink_faults import strike_sinks  # noqa: PLC0415  (psycopg is needed for this only)

    return strike_sinks(system, this)


def _dice(this: Round) -> random.Random:
    return random.Random(this.seed)  # noqa: S311  (dice, no secret)


_FAULTS: dict[StrEnum, Callable[[System, Round], float]] = {
    Fault.DRIVER_KILLED: _kill_driver,
    Fault.EXECUTOR_KILLED: _kill_executor,
    Fault.WORKERS_KILLED: _kill_workers,
    Fault.JOB_SUSPENDED: _suspend_job,
    Fault.BROKER_RESTARTED: _restart_broker,
    Fault.BROKER_KILLED: _kill_broker,
    Fault.BROKER_AWAY: take_broker_away,
    Fault.CHECK_SERVICE_KILLED: _kill_check_service,
    Fault.PRODUCER_KILLED: _kill_producer,
    Fault.CHECKPOINT_TORN: _tear_checkpoint,
    Fault.CLOCK_BACK_SECONDS: _step_clock_back,
    Fault.CLOCK_BACK_HOUR: step_clock_back_an_hour,
    Fault.CLOCK_AHEAD: step_clock_ahead,
    Fault.SETTINGS_CHANGED: _change_settings,
    Fault.TOPIC_LATE: make_topic_late,
    Fault.TOPIC_GROWN: grow_topic,
    Fault.TOPIC_LEADERLESS: take_leader_away,
    Fault.SECOND_JOB: start_second_job,
    Fault.DATABASE_CUT: _cut_database,
    MachineFault.POWER_LOST: lose_power,
    MachineFault.SHOP_POWER_LOST: lose_shop,
    MachineFault.BROKER_POWER_LOST: lose_broker,
    MachineFault.BROKER_POWER_AWAY: lose_broker,
    **dict.fromkeys(PAUSED, pause),
    MachineFault.DISK_FULL: fill_disk,
    MachineFault.DISK_READ_ONLY: make_disk_read_only,
    MachineFault.CHECKPOINT_COPIED: start_on_copy,
    MachineFault.CHECKPOINT_OLD: start_on_older_copy,
    **dict.fromkeys(OF_CLUSTER, strike),
    **dict.fromkeys(SinkFault, _strike_sinks),
    **dict.fromkeys((SinkFault.KILLED_BEFORE, SinkFault.KILLED_BETWEEN, SinkFault.KILLED_AFTER), _kill_driver),
}
