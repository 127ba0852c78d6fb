"""The class with which Spark writes its checkpoint into an object store: ours, as no setting makes Spark's own do.

It is compiled at the first start that needs it, by the compiler that Spark brings, into the user's cache folder. Why,
and with which lines of Hadoop's and Spark's source: see docs/decisions/0034.
"""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from checkback.exceptions import InstallationError
from checkback.local.java import java_command

_CLASS = "checkback.WholeFiles"
_SOURCES = Path(__file__).with_name("java")
_LIMIT_SECONDS = 120.0

OPTIONS = {
    "spark.sql.streaming.checkpointFileManagerClass": _CLASS,
    "spark.hadoop.fs.s3a.create.conditional.enabled": "true",
    # Hadoop's own choice reads ahead, and in other threads: good for tables
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
}
"""Of Spark, for a checkpoint in an object store; it is not safe without them."""
PATIENCE = {
    "spark.hadoop.fs.s3a.connection.timeout": "20s",
    "spark.hadoop.fs.s3a.connection.request.timeout": "30s",
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
}
"""Of a store that takes what it is sent, and says nothing: Hadoop's own are 200 s, 6 times 8 of them."""


def whole_files_jar() -> Path:
    """The jar with the class, made if need be.

    Raises:
        InstallationError: it cannot be made.
    """
    source = _SOURCES / "WholeFiles.java"
    made_of = hashlib.sha256(source.read_bytes() + pyspark.__version__.encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "checkback"
    jar = folder / f"whole-files-{made_of}.jar"
    try:
        if not jar.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as own:
                _compile(source, Path(own))
                _pack(Path(own), Path(own) / jar.name).replace(jar)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise InstallationError(
            f"The class that writes checkpoints into an object store cannot be made in {folder}: {said[-1]}"
        ) from error
    return jar


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
