"""Folders on this machine: the user's home, a Kafka's, which it locks, and Spark's scratch folder."""

import atexit
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from checkback.exceptions import BrokerStartError

_NAME = "checkback.lock"
DIRS = "SPARK_LOCAL_DIRS"
"""Of Spark: it comes before the option ``spark.local.dir``."""
_PREFIX, _LOCK = "checkback-run-", ".lock"
_SPARKS = ("blockmgr-", "spark-")
"""What Spark makes there itself: of other programs, or of a Checkback from before runs had folders."""


def home() -> Path:
    """The home folder of this process and of those that it starts.

    It is ``HOME``, or else what ``/etc/passwd`` names, if it can be written to or has a cache that an image brings.
    A user without either gets a folder of its own among the temporary ones, as ``HOME``.

    Raises:
        OSError: there is no folder for temporary files that this user may write to.
    """
    try:
        found = Path.home()
        if os.access(found, os.W_OK | os.X_OK) or (found / ".cache").is_dir():
            return found
    except (OSError, RuntimeError):  # no name for this uid, or a folder of somebody else's
        pass
    own = Path(tempfile.gettempdir()) / f"checkback-home-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink() or own.stat().st_uid != os.getuid():  # others write to that folder, too
        own = Path(tempfile.mkdtemp(prefix="checkback-home-"))
    os.environ["HOME"] = str(own)
    return own


def cache_folder() -> Path:
    """Where what can be made again is kept: in ``XDG_CACHE_HOME``, or in the home folder's ``.cache``.

    Raises:
        OSError: as :func:`home`.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "checkback"


@contextmanager
def locked(folder: Path, seconds: float) -> Iterator[int]:
    """Make the folder, and give its lock's descriptor: processes that inherit it keep the lock while they live.

    Kafka's own lock comes too late: with a controller in the same process, a second Kafka has by then written to the
    first one's metadata log, and both end. For ``seconds`` the lock is waited for: of a broker that was killed the last
    thread may end after the process is gone.

    Raises:
        BrokerStartError: another Kafka has the folder, or it cannot be written to, or has no locks.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / _NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _lock(held, time.monotonic() + seconds)
        except OSError:
            os.close(held)
            raise
    except BlockingIOError as error:
        raise BrokerStartError(f"Another Kafka uses {folder}: stop that one, or name another folder.") from error
    except OSError as error:
        raise BrokerStartError(f"{folder} cannot be Kafka's folder: {error.strerror}. Choose another.") from error
    try:
        yield held
    finally:
        os.close(held)


def _lock(held: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(0.05)


class Left(NamedTuple):
    """What lies in a scratch folder beside what living runs have there, in bytes."""

    dead: int
    """Of runs that were killed; the next start removes it."""
    unknown: int
    """Spark's, of whoever: nobody here knows whether that is alive."""


def scratch_folders(options: Mapping[str, str]) -> list[Path]:
    """Where Spark has its scratch files, as the environment or ``job.spark_options`` say."""
    named = os.environ.get(DIRS) or options.get("spark.local.dir") or tempfile.gettempdir()
    return [Path(name.strip()).absolute() for name in named.split(",") if name.strip()]


def take_scratch(folders: list[Path]) -> list[Path]:
    """Make this process a folder in each, locked until it ends, and remove what dead runs have left there.

    Spark removes its files when it ends, and a run that is killed does not end: 130 MB with 200,000 open transactions.
    The lock is held for as long as the process lives, whatever ends it; process ids come again, locks do not.

    Raises:
        OSError: a folder cannot be written to, or has no locks.
    """
    own = []
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for lock, run in _dead(folder):
            shutil.rmtree(run, ignore_errors=True)
            if not run.exists():  # else the next start tries again
                (folder / lock).unlink(missing_ok=True)
        own.append(_new(folder))
    return own


def left_in(folder: Path) -> Left:
    """What dead runs have left there; changes nothing."""
    dead = sum(_bytes_in(run) for _lock, run in _dead(folder))
    others = [child for child in _children(folder) if child.name.startswith(_SPARKS)]
    return Left(dead, sum(_bytes_in(child) for child in others))


def _new(folder: Path) -> Path:
    while True:
        run = folder / f"{_PREFIX}{uuid.uuid4().hex[:12]}"  # short: see streaming.session, of sockets
        lock = folder / f"{run.name}{_LOCK}"
        held = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        if lock.exists():  # else another start took it for a dead run's, just before it was locked
            run.mkdir(mode=0o700)
            atexit.register(_release, run, lock)
            return run
        os.close(held)


def _release(run: Path, lock: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)
    lock.unlink(missing_ok=True)


def _dead(folder: Path) -> Iterator[tuple[str, Path]]:
    """Locks that nobody holds, with the folders of their runs; each is held while its turn lasts."""
    for lock in _children(folder):
        if not (lock.name.startswith(_PREFIX) and lock.name.endswith(_LOCK)):
            continue
        try:
            held = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or gone
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield lock.name, folder / lock.name.removesuffix(_LOCK)
        except OSError:  # it lives
            continue
        finally:
            os.close(held)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _bytes_in(folder: Path) -> int:
    found = 0
    for place, _folders, files in os.walk(folder):
        for name in files:
            try:
                found += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118  (os.walk's own)
            except OSError:  # gone meanwhile
                continue
    return found
