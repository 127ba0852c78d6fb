"""A real Spark cluster on this machine: Spark's own standalone master and workers, as processes."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from psutil import NoSuchProcess, Process

from checkback.exceptions import CheckbackError, InstallationError
from checkback.installing import job
from checkback.local.java import java_command
from checkback.local.kafka import free_port
from checkback.local.supervised import Supervised

_POLL_SECONDS = 0.05
_LAST_LINES = 20
_DEPLOY, _EXECUTOR = "org.apache.spark.deploy", "CoarseGrainedExecutorBackend"
_HIDDEN = [*map(Path, ("/dev/shm", "/tmp")), Path.home() / ".cache", Path.home() / ".m2"]  # noqa: S108  (hidden)
_MODULES = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util")
)


class LocalSparkCluster:
    """A master and workers that live as long as the ``with`` block; ``job.master`` is :attr:`url`.

    Each worker has a folder of its own for what its executors keep, and ``cores`` and ``memory_megabytes`` to give to
    them. ``environment``: what executors shall have beside ours. They use the Python of this environment, as if it
    were installed on each machine under the same path. Workers ``with_files_of_their_own`` have a ``/tmp`` and
    a ``/dev/shm`` that nobody else sees, where we may give them one (:func:`files_of_its_own`).
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        cores: int = 1,
        memory_megabytes: int = 1024,
        start_seconds: float = 120.0,
        environment: Mapping[str, str] | None = None,
        with_files_of_their_own: bool = False,
    ) -> None:
        self._start_seconds = start_seconds
        self._options = ["--cores", str(cores), "--memory", f"{memory_megabytes}m"]
        self._environment = dict(environment or {})
        self._before = files_of_its_own() if with_files_of_their_own else []
        self._numbers = range(1, workers + 1)
        self.folder = Path()
        """A temporary one, for logs and the workers' folders; it goes with the cluster."""
        self._port = 0
        self._master: Supervised | None = None
        self._workers: dict[int, Supervised] = {}

    @property
    def url(self) -> str:
        """``spark://host:port`` of the master."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def pids(self) -> dict[int, int]:
        """Process id of what runs each worker that runs, by its number."""
        return {number: one.pid for number, one in self._workers.items() if one.pid is not None}

    def start(self) -> Self:
        """Start all, and return when every worker has registered.

        Raises:
            CheckbackError: one ended, or did not answer within ``start_seconds``.
            InstallationError: no Java, or no Spark.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="checkback-spark-"))
        try:
            self.start_master()
            for number in self._numbers:
                self._launch_worker(number)
            for number in self._numbers:
                self._wait_for_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def start_master(self) -> None:
        """Start the master, also one that was killed: it finds in its folder who was there."""
        self._port = self._port or free_port()
        log = self.folder / "master.log"
        kept = ("-Dspark.deploy.recoveryMode=FILESYSTEM", f"-Dspark.deploy.recoveryDirectory={self.folder}/master")
        options = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"]
        self._master = Supervised(
            [*_java(*kept), f"{_DEPLOY}.master.Master", *options], log, environment=_environment()
        )
        self._wait_for("I have been elected leader", log, self._master)

    def start_worker(self, number: int) -> None:
        """Start a worker that was killed, and return when it has registered."""
        self._launch_worker(number)
        self._wait_for_worker(number)

    def executors(self) -> list[Process]:
        """Java of the executors that run."""
        found = []
        for pid in self.pids.values():
            try:
                family = Process(pid).children(recursive=True)
                found += [one for one in family if any(_EXECUTOR in word for word in one.cmdline())]
            except NoSuchProcess:
                continue
        return found

    def kill_worker(self, number: int) -> None:
        """End a worker with SIGKILL, and its executors with it: its machine is gone."""
        pid = self._workers[number].pid
        family = [] if pid is None else Process(pid).children(recursive=True)
        self._workers.pop(number).kill()
        for one in family:
            try:
                one.kill()
            except NoSuchProcess:
                continue

    def kill_master(self) -> None:
        """End the master with SIGKILL."""
        if self._master is not None:
            self._master.kill()
            self._master = None

    def stop(self) -> None:
        """End all, in order, and remove the folder."""
        for one in [*self._workers.values(), *([self._master] if self._master else [])]:
            one.stop()
        self._workers, self._master = {}, None
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _launch_worker(self, number: int) -> None:
        place = self.folder / str(number)
        place.mkdir(exist_ok=True)
        # Executors of one host read one another's files.
        host = f"127.0.0.{number + 1}" if sys.platform == "linux" else "127.0.0.1"
        options = ["--host", host, "--work-dir", str(place / "work"), "--webui-port", "0", *self._options]
        environment = {"SPARK_LOCAL_DIRS": str(place / "local"), "TMPDIR": str(place), **self._environment}
        self._workers[number] = Supervised(
            [*self._before, *_java(), f"{_DEPLOY}.worker.Worker", *options, self.url],
            self._log_of(number),
            environment={**_environment(), **environment},
        )

    def _wait_for_worker(self, number: int) -> None:
        self._wait_for("Successfully registered with master", self._log_of(number), self._workers[number])

    def _log_of(self, number: int) -> Path:
        return self.folder / f"worker-{number}.log"

    def _wait_for(self, line: str, log: Path, process: Supervised) -> None:
        wait_for_server(lambda: line in read_log(log), log, process, self._start_seconds)


def _java(*properties: str) -> list[str]:
    class_path = os.path.join(spark_home(), "jars", "*")  # noqa: PTH118  (Java's)
    return [str(java_command()), "-Xmx256m", *_MODULES, *properties, "-cp", class_path]


def _environment() -> dict[str, str]:
    # A job that ran in this process has pointed JAVA_HOME at a script in a folder that is hidden.
    home = java_command().resolve().parent.parent
    return {"SPARK_HOME": str(spark_home()), "SPARK_SCALA_VERSION": "2.13", "JAVA_HOME": str(home)}  # as its scripts do


def files_of_its_own() -> list[str]:
    """A command that gives another one folders that nobody else sees, empty ones; empty: we may not.

    Those are ``/tmp`` and ``/dev/shm``, and where the driver's jars are: others have what Spark gives them. A folder
    in which this program, its Python or its Java is installed is kept.
    """
    installed = [Path(one).resolve() for one in (sys.prefix, __file__, sys.executable, java_command())]
    folders = [folder for folder in _HIDDEN if folder.is_dir() and not any(folder in one.parents for one in installed)]
    mounted = " && ".join(f"mount -t tmpfs tmpfs '{folder}'" for folder in folders)
    command = ["unshare", "--mount", "sh", "-c", f'{mounted} && exec "$@"', "--"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)  # noqa: S603  (our own command line)
    except OSError:
        return []
    return command if done.returncode == 0 else []


def spark_home() -> Path:
    """The folder of PySpark, which has Spark's jars.

    Raises:
        InstallationError: it is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise InstallationError(f"A Spark cluster needs PySpark: {job()}.")
    return Path(found.origin).parent


def read_log(log: Path) -> str:
    """What a server has printed until now."""
    return log.read_text(encoding="utf-8", errors="replace")


def wait_for_server(ready: Callable[[], bool], log: Path, process: Supervised, seconds: float) -> None:
    """Wait until a server answers.

    Raises:
        CheckbackError: it ended, or did not answer within ``seconds``; it does not run any more then.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if not process.running or time.monotonic() > deadline:
            how = f"did not answer within {seconds:.0f} s" if process.running else "ended by itself"
            process.stop()
            last = "\n".join(read_log(log).splitlines()[-_LAST_LINES:])
            raise CheckbackError(f"A server that was to run on this machine {how} ({log}). It said:\n{last}")
        time.sleep(_POLL_SECONDS)
