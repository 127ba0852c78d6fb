"""Faults of what the checkpoint lies on, and of hands that copy it."""

import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

from torture.machine import disk_of, goes_on, kill
from torture.processes import JobProcess
from torture.schedule import Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_FAULTY_SECONDS = (5.0, 45.0)
_OLDER_SECONDS = (0.0, 15.0)
_STOP_SECONDS = 60.0


def fill_disk(system: System, this: Round) -> float:
    """1. No byte is left on the job's disk.  2. What ends is started again.  3. There is room; nothing needs hands."""
    disk = disk_of(system)
    disk.fill()  # 1
    try:
        system.supervise_for(_dice(this).uniform(*_FAULTY_SECONDS))  # 2
    finally:
        disk.make_room()  # 3
    since = time.time()
    system.recoveries.append(system.wait_for_delivery(since))
    if system.given_up:
        raise NotRecoveredError(f"Round {this.number}, {this}: {' | '.join(system.given_up)}.")
    return since


def make_disk_read_only(system: System, this: Round) -> float:
    """1. The disk fails.  2. A job that ends is started again, in vain.  3. Somebody mends the disk, and starts it."""
    disk = disk_of(system)
    disk.fail()  # 1
    system.supervise_for(_dice(this).uniform(*_FAULTY_SECONDS))  # 2
    kill(system.job)
    disk.mend()  # 3
    return goes_on(system)


def start_on_copy(system: System, this: Round) -> float:
    """1. The folder is copied while the job runs.  2. Another is started on the copy.  3. One of them goes on.

    What the first has done since decides. Where the second goes on, its folder is the checkpoint from then on.
    """
    checkpoint, first = system.ground.checkpoint, system.job
    copy = _copied(checkpoint, "copy")  # 1
    time.sleep(_dice(this).uniform(*_OLDER_SECONDS))
    environment = {**system.job_environment, "CHECKBACK_JOB__CHECKPOINT": str(copy)}
    second = JobProcess(["torture.job", str(system.ground.folder)], environment, system.ground.folder / "second.log")
    try:  # 2
        system.wait_until(
            lambda: second.exit_status is not None or first.exit_status is not None,
            GIVE_UP_SECONDS,
            "two jobs run on one checkpoint and its copy",
            supervised=False,
        )
        if second.exit_status is None:  # 3
            system.note_stop(first, "the first job")
            system.wait_for_delivery(time.time(), supervised=False)
            second.terminate()
            second.wait(_STOP_SECONDS)
            _put(copy, checkpoint)
            return goes_on(system)
        system.note_stop(second, "the job on the copy")
        if second.exit_status == 0:
            raise NotRecoveredError("The job on the copy ended as if nothing had happened.")
    finally:
        second.kill()
    shutil.rmtree(copy, ignore_errors=True)
    return time.time()


def start_on_older_copy(system: System, this: Round) -> float:
    """1. A copy is kept.  2. The job goes on.  3. It is started on the copy, and must stop, or deliver nothing twice.

    4. The newest one is put back.
    """
    checkpoint = system.ground.checkpoint
    kill(system.job)
    copy = _copied(checkpoint, "older")  # 1
    system.recoveries.append(time.time() - goes_on(system))  # 2
    time.sleep(_dice(this).uniform(*_OLDER_SECONDS))
    kill(system.job)
    newest = checkpoint.with_name("newest")
    checkpoint.rename(newest)  # 3
    copy.rename(checkpoint)
    system.restart_job()
    if system.job.wait(GIVE_UP_SECONDS) is None:
        raise NotRecoveredError("A job was started on an older copy of its checkpoint, and did not stop.")
    system.note_stop(system.job, "the job on the older copy")
    _put(newest, checkpoint)  # 4
    return goes_on(system)


def _copied(checkpoint: Path, name: str) -> Path:
    copy = checkpoint.with_name(name)
    with suppress(shutil.Error, FileNotFoundError):  # files come and go meanwhile
        shutil.copytree(checkpoint, copy)
    return copy


def _put(folder: Path, place: Path) -> None:
    shutil.rmtree(place)
    folder.rename(place)


def _dice(this: Round) -> random.Random:
    return random.Random(this.seed)  # noqa: S311  (dice, no secret)
