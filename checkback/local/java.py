"""Finds a Java that runs Spark and Kafka (17 or newer), or fetches one."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from checkback.exceptions import InstallationError

OLDEST = 17


@functools.cache
def java_command() -> Path:
    """Path of the ``java`` to use: ``JAVA_HOME``, else the path, else one fetched once by cjdk.

    Raises:
        InstallationError: there is none and none could be fetched.
    """
    for candidate in _installed():
        if _major_version(candidate) >= OLDEST:
            return candidate
    return _fetched()


def use_java() -> None:
    """Point ``JAVA_HOME`` of this process at :func:`java_command`, which is where pyspark looks."""
    os.environ["JAVA_HOME"] = str(java_command().resolve().parent.parent)


def _installed() -> list[Path]:
    homes = [Path(home) / "bin" / "java" for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = shutil.which("java")
    return [path for path in [*homes, *([Path(on_path)] if on_path else [])] if path.exists()]


def _major_version(java: Path) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _fetched() -> Path:
    import cjdk  # noqa: PLC0415  (needed on a machine without Java only)

    try:
        return Path(cjdk.java_home(vendor="temurin-jre", version="21")) / "bin" / "java"
    except Exception as error:
        raise InstallationError(
            f"There is no Java {OLDEST} or newer here and none could be fetched: install one "
            f"(Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME. ({error})"
        ) from error
