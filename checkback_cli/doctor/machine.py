"""The machine itself: Java, jars, packages, disk."""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from checkback.exceptions import InstallationError
from checkback.local.jars import fetched
from checkback.local.java import OLDEST, java_command
from checkback.version import __version__
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from conf import Settings

_NEWEST_TRIED = 21
_PACKAGES = ("pyspark", "confluent-kafka", "kafka-python", "pandas", "pyarrow", "numpy")
_WANTED = {"pyspark": r"4\.2\.0$", "pandas": r"2\.", "kafka-python": r"3\."}
"""How their versions must begin; the others go with what pip resolves."""
_MIB, _GIB = 1 << 20, 1 << 30
_MUCH_SCRATCH = 100 * _MIB
_LEAST_FREE = 200 << 20
_LITTLE_FREE = 2 * _GIB


def about_java() -> Iterator[Finding]:
    """Whether there is a Java that Spark runs on."""
    try:
        java = java_command()
    except InstallationError as error:
        yield wrong("Java", str(error), "as it says")
        return
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=20).stderr  # noqa: S603  (our own command)
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', said)
    if found is None:
        yield wrong("Java", f"{java} does not say its version", f"install a Java {OLDEST} or {_NEWEST_TRIED}")
    elif int(found[1]) > _NEWEST_TRIED:
        todo = f"Spark 4.2 is known to run on {OLDEST} to {_NEWEST_TRIED}: name one of those in JAVA_HOME"
        yield warning("Java", f"{java} is of version {found[1]}", todo)
    else:
        yield ok("Java", f"{java}, {found[0].removeprefix('version ')}")


def about_jars(settings: Settings) -> Iterator[Finding]:
    """Whether the jars that Spark needs have been fetched; asks no network."""
    store = settings.job.checkpoint.partition("://")[0]
    there, missing = fetched([*(table.kind for table in settings.sinks.tables.values()), store])
    if missing:
        todo = "the first start fetches them from Maven, for which it needs a network"
        yield warning("jars", f"not fetched yet: {', '.join(missing)}", todo)
    else:
        yield ok("jars", f"{', '.join(there)}")


def about_packages() -> Iterator[Finding]:
    """Versions of what the job runs on."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            yield wrong("packages", f"{name} is not installed", "pip install checkback-job")
    yield from unfitting(found)
    said = ", ".join(f"{name} {number}" for name, number in found.items())
    yield ok("packages", f"checkback {__version__}, Python {platform.python_version()}, {said}")


def unfitting(found: dict[str, str]) -> Iterator[Finding]:
    """Those of these versions that the job was not written for."""
    for name, form in _WANTED.items():
        if name in found and not re.match(form, found[name]):
            wanted = form.rstrip("$").replace("\\", "")
            todo = f"pip install checkback-job brings {wanted}{'' if form.endswith('$') else '*'}"
            yield wrong("packages", f"{name} is of version {found[name]}", todo)


def about_disk(settings: Settings) -> Iterator[Finding]:
    """Room where the checkpoint is, when that is on this machine."""
    folder = local_folder(settings.job.checkpoint)
    if folder is None:
        yield ok("disk", f"the checkpoint is elsewhere: {settings.job.checkpoint}")
        return
    there = next(one for one in (folder, *folder.parents) if one.exists())
    yield room(there, shutil.disk_usage(there).free)


def about_scratch(settings: Settings) -> Iterator[Finding]:
    """What lies in Spark's scratch folder, where that is on this machine."""
    if not settings.job.master.startswith("local"):
        return
    from checkback.local.folders import left_in, scratch_folders

    for folder in scratch_folders(settings.job.spark_options):
        yield scratch(folder, *left_in(folder))


def scratch(folder: Path, dead: int, unknown: int) -> Finding:
    """What so many bytes there mean, of runs that were killed and of whoever else uses Spark."""
    said = f"{dead / _MIB:,.0f} MiB of killed runs in {folder}, and {unknown / _MIB:,.0f} MiB of other Spark programs"
    if unknown >= _MUCH_SCRATCH:
        todo = "if no other Spark runs on this machine, remove blockmgr-* and spark-* there: no start does"
        return warning("scratch", said, todo)
    return ok("scratch", f"{said}; the next start removes the former" if dead else said)


def room(place: Path, free: int) -> Finding:
    """What so many free bytes mean."""
    said = f"{free / _GIB:.1f} GiB free at {place}"
    if free < _LEAST_FREE:
        return wrong("disk", said, "free some space: the job stops when it cannot write its state")
    if free < _LITTLE_FREE:
        todo = "free some space: a million open transactions take about their own size, at times three times that"
        return warning("disk", said, todo)
    return ok("disk", said)


def local_folder(checkpoint: str) -> Path | None:
    """The checkpoint's folder on this machine; None where Hadoop has it elsewhere."""
    path = re.sub(r"^file:(//)?(?=/|[^/])", "", checkpoint)
    return None if "://" in path else Path(path).absolute()
