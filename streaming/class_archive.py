"""Spark's classes, made ready once: Java that finds them in an archive starts with less CPU.

:mod:`streaming.prepare` makes it; a job that finds none starts without. Java passes over an archive that does not fit:
it compares its own build, and each jar's size and time. So the name has the environment and its jars with their times:
an environment that was made again has none, rather than one that is of no use. The Java is not in it:
it has several names. See JEP 350.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import pyspark

from checkback.exceptions import InstallationError
from checkback.local.folders import cache_folder
from checkback.local.jars import TABLES

_LIMIT_SECONDS = 900.0
"""Half a minute on a quiet machine; where four other things run it has taken five."""


def archive_file(kinds: Iterable[str] = ()) -> Path:
    """Where the archive of jobs with such tables is, or would be: in the user's cache folder."""
    return cache_folder() / f"{_first_part(kinds)}{_digest(_jars())[:8]}.jsa"


def _first_part(kinds: Iterable[str]) -> str:
    """Of the names of all archives that such jobs in this environment have had."""
    return f"classes-{_digest(f'{sys.prefix} {pyspark.__version__} {_with_jars(kinds)}')[:16]}-"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _jars() -> str:
    """Spark's own, with what Java compares: their sizes, and their times (s)."""
    with os.scandir(Path(pyspark.__file__).parent / "jars") as found:
        stats = [(one.name, one.stat()) for one in found]
    return repr(sorted((name, stat.st_size, int(stat.st_mtime)) for name, stat in stats))


def _with_jars(kinds: Iterable[str]) -> list[str]:
    return sorted(TABLES.keys() & set(kinds))


def archive_options(kinds: Iterable[str] = ()) -> list[str]:
    """Options of a Java that is to use it, if it is there and fits; it says nothing if it does not."""
    try:
        archive = archive_file(kinds)
        whole = _is_whole(archive)
    except (OSError, RuntimeError):  # a home that this user may not look into, or none: a start with more work
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if whole else []


def _size_file(archive: Path) -> Path:
    return archive.with_suffix(".size")


def _is_whole(archive: Path) -> bool:
    """Java believes what the head says, and crashes (SIGBUS) where a copy cut short lacks the rest."""
    size = _size_file(archive)
    return archive.exists() and size.exists() and size.read_bytes() == b"%d" % archive.stat().st_size


def make_archive(kinds: Collection[str] = (), *, again: bool = False) -> Path:
    """The archive of such jobs, made now, in a process of its own: half a minute.

    One that is there stays, unless it is to be made ``again``.

    Raises:
        InstallationError: it could not be made.
    """
    try:
        archive = archive_file(kinds)
        archive.parent.mkdir(parents=True, exist_ok=True)
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two who want it at the same time make one
            if again or not _is_whole(archive):
                _make(archive, kinds)
    except subprocess.TimeoutExpired as error:
        raise InstallationError(
            f"No archive of classes could be made within {_LIMIT_SECONDS:.0f} s: try again when less else runs here."
        ) from error
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or f"{error}"
        raise InstallationError(f"No archive of classes could be made: {said.strip().splitlines()[-1]}") from error
    return archive


def _make(archive: Path, kinds: Collection[str]) -> None:
    draft = archive.with_suffix(".draft")
    draft.unlink(missing_ok=True)  # Java does not write over what somebody killed has left
    try:
        command = [sys.executable, "-m", "streaming.prepare", "--into", str(draft), *_with_jars(kinds)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_SECONDS)  # noqa: S603  (kinds are no options)
        with draft.open("rb") as made:
            os.fsync(made.fileno())
        _size_file(archive).write_bytes(b"%d" % draft.stat().st_size)
        draft.rename(archive)
        _remove_others(archive, kinds)
    finally:
        draft.unlink(missing_ok=True)


def _remove_others(archive: Path, kinds: Collection[str]) -> None:
    """Those of jars that this environment no longer has: 180 MB each. A Java that uses one keeps it until it ends."""
    for other in archive.parent.glob(f"{_first_part(kinds)}*"):
        if other.stem != archive.stem:
            other.unlink(missing_ok=True)
