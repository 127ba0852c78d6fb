"""Spark's classes, made ready once: a JVM that finds them in an archive (CDS) starts in half the time.

A fault run starts a driver every half minute. The archive is kept in the user's cache folder; this module, run as a
program, is what has its classes archived.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from checkback.local.java import java_command

_LIMIT_SECONDS = 180


def class_archive(settings: dict[str, str]) -> Path | None:
    """The archive for a driver with these settings, made now if it is not there; None when it cannot be made.

    An archive that does not fit, after an upgrade perhaps, is passed over by the JVM.
    """
    tables = json.loads(settings.get("CHECKBACK_SINKS__TABLES", "{}"))
    kinds = sorted({table["kind"] for table in tables.values()})  # each brings jars
    spelled = f"{java_command()} {sys.prefix} {kinds}, no incubator module"
    name = f"classes-{hashlib.sha256(spelled.encode()).hexdigest()[:16]}.jsa"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "checkback"
    archive = folder / name
    if not archive.exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            folder.mkdir(parents=True, exist_ok=True)
            draft = archive.with_suffix(f".{os.getpid()}")
            _record(settings, draft)
            draft.rename(archive)
    return archive if archive.exists() else None


def _record(settings: dict[str, str], archive: Path) -> None:
    options = {"JDK_JAVA_OPTIONS": f"-XX:ArchiveClassesAtExit={archive}", "CHECKBACK_JOB__MASTER": "local[2]"}
    subprocess.run(
        [sys.executable, "-m", "torture.classes"],
        env={**os.environ, **settings, **options},
        check=True,
        capture_output=True,
        timeout=_LIMIT_SECONDS,
    )


def main() -> None:
    """Start Spark, run a streaming query with state for some batches, and have the JVM end in order."""
    from pyspark import SparkContext  # noqa: PLC0415  (not for who only asks for the archive)

    from conf import load  # noqa: PLC0415  (imported when it is needed)
    from streaming.session import build_session  # noqa: PLC0415  (imported when it is needed)

    spark = build_session(load())
    with tempfile.TemporaryDirectory(prefix="checkback-classes-") as folder:
        counted = spark.readStream.format("rate").load().groupBy("value").count()
        sink = counted.writeStream.outputMode("update").format("noop").option("checkpointLocation", folder)
        query = sink.start()
        query.awaitTermination(8)
        query.stop()
    spark.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001  (the only way to its process)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_LIMIT_SECONDS)


if __name__ == "__main__":
    main()
