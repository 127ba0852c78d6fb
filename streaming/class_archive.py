"""Spark's classes, made ready once: Java that finds them in an archive starts with less CPU.

:mod:`streaming.prepare` makes it; a job that finds none starts without. The name has what the archive depends on, and
Java passes over one that does not fit: it compares each jar's size and time. See JEP 350.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

import pyspark

from checkback.exceptions import InstallationError
from checkback.local import java_command

_LIMIT_SECONDS = 300.0


def archive_file(kinds: Iterable[str] = ()) -> Path:
    """Where the archive of such jobs is, or would be: in the user's cache folder."""
    spelled = f"{java_command()} {sys.prefix} {pyspark.__version__} {sorted(set(kinds))}"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "checkback"
    return folder / f"classes-{hashlib.sha256(spelled.encode()).hexdigest()[:16]}.jsa"


def archive_options(archive: Path) -> list[str]:
    """Options of a Java that is to use it, if it is there and fits; it says nothing if it does not."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive.exists() else []


def make_archive(kinds: Collection[str] = ()) -> Path:
    """The archive of such jobs, made now, in a process of its own, if it is not there: half a minute.

    Raises:
        InstallationError: it could not be made.
    """
    archive = archive_file(kinds)
    if archive.exists():
        return archive
    draft = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "streaming.prepare", "--into", str(draft), *sorted(kinds)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_SECONDS)  # noqa: S603  (kinds are no options)
        draft.rename(archive)
    except (OSError, subprocess.SubprocessError) as error:
        draft.unlink(missing_ok=True)
        said = getattr(error, "stderr", None) or f"{error}"
        raise InstallationError(f"No archive of classes could be made: {said.strip().splitlines()[-1]}") from error
    return archive
