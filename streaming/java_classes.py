"""Java classes of our own, each compiled at the first start that needs it, by the compiler that Spark brings."""

import hashlib
import os
import pwd
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from checkback.exceptions import InstallationError
from checkback.local.folders import cache_folder, home
from checkback.local.java import java_command

_SOURCES = Path(__file__).with_name("java")
_LIMIT_SECONDS = 120.0


def compiled(name: str, purpose: str) -> Path:
    """The jar with a class, made in the cache folder if need be; ``purpose`` completes 'The class that'.

    Raises:
        InstallationError: it cannot be made.
    """
    source = _SOURCES / f"{name}.java"
    made_of = hashlib.sha256(source.read_bytes() + pyspark.__version__.encode()).hexdigest()[:16]
    folder = cache_folder()
    jar = folder / f"{name}-{made_of}.jar"
    try:
        if not jar.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as own:
                _compile(source, Path(own))
                _pack(Path(own), Path(own) / jar.name).replace(jar)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise InstallationError(
            f"The class that {purpose} cannot be made in {folder}: {said[-1]}. Name a folder that this user may write "
            "to in XDG_CACHE_HOME."
        ) from error
    return jar


def options_for_user() -> list[str]:
    """Options of a Java with Hadoop, which accepts no user without a line in ``/etc/passwd``, as containers have them.

    Raises:
        InstallationError: see :func:`compiled`.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        os.environ.setdefault("HADOOP_USER_NAME", str(os.getuid()))
        return [f"--patch-module=jdk.security.auth={login_module()}", f"-Duser.home={home()}"]
    return []


def login_module() -> Path:
    """The jar with what lets a user without a name start Spark. An image makes it ahead for whoever runs it.

    Raises:
        InstallationError: see :func:`compiled`.
    """
    return compiled("UnixLoginModule", "lets a user without a name start Spark")


def _compile(source: Path, into: Path) -> None:
    spark = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")  # noqa: PTH118, PTH120  (Java's)
    compiler = [str(java_command()), "-cp", spark, "org.codehaus.janino.SimpleCompiler"]
    command = [*compiler, str(_SOURCES / "Compile.java"), "Compile", str(source), str(into)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_LIMIT_SECONDS)  # noqa: S603  (our own command line)


def _pack(folder: Path, jar: Path) -> Path:
    with zipfile.ZipFile(jar, "w") as packed:
        for one in sorted(folder.rglob("*.class")):
            packed.write(one, one.relative_to(folder))
    return jar
