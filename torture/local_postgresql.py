"""A real PostgreSQL of our own: its own folder, a unix socket, a port where one is wanted, gone with who started it."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Self

import psycopg
from sqlalchemy import URL

from checkback.exceptions import CheckbackError, InstallationError
from checkback.local import supervisor

_AUTHENTICATION = ("--auth-local=trust", "--auth-host=scram-sha-256")
_PROGRAMS = ("initdb", "postgres")
_ADMINISTRATOR = "test"
_BEGIN_SECONDS = 60.0
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class LocalPostgresqlError(CheckbackError):
    """It does not do what it should; says what its log says."""


class Stop(Enum):
    """How it is stopped, by PostgreSQL's own names."""

    FAST = signal.SIGINT
    """Whoever is connected is cut off, what they had under way is rolled back, and all is written in order."""
    IMMEDIATE = signal.SIGQUIT
    """It crashes: all its processes end at once, and the next start recovers from the log."""


class LocalPostgresql:
    """Runs while it is entered, and can be stopped and started again.

    With a port it listens there, too, on this machine only, and asks for passwords. Nothing is synchronised with the
    disk: it keeps what was committed when it crashes, but not when the machine does. With ``disk``, a folder, it lies
    there, and is set as PostgreSQL is by default: each commit waits for the disk.

    Raises:
        InstallationError: PostgreSQL is not installed here, or cannot run as who we are.
        LocalPostgresqlError: it did not start.
    """

    def __init__(self, port: int | None = None, disk: Path | None = None) -> None:
        self.port = port
        """Where it listens on this machine; None: nowhere."""
        self._programs, self._be_another = _programs(), _be_another()
        self._disk = disk
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="checkback-pg-", dir=self._disk))
        try:
            if self._be_another:
                shutil.chown(self._folder, _server_user())
            self._make()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> URL:
        """That of its unix socket, where everybody is trusted."""
        query = {"host": str(self._folder), **({"port": str(self.port)} if self.port else {})}
        return URL.create("postgresql+psycopg", _ADMINISTRATOR, database="postgres", query=query)

    @property
    def log(self) -> str:
        """What it has said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._forget_guard()
        # without a port no TCP: the socket lies in the folder, so two servers never meet
        address = ["listen_addresses=127.0.0.1", f"port={self.port}"] if self.port else ["listen_addresses="]
        settings = [*address, f"unix_socket_directories={self._folder}", *([] if self._disk else ["fsync=off"])]
        server = [self._programs / "postgres", "-D", self._data, *(part for one in settings for part in ("-c", one))]
        # ends the server and removes the folder even when this process is killed
        command = [sys.executable, supervisor.__file__, self._folder, *self._be_another, *server]
        with (self._folder / "log").open("ab") as log:
            self._guard = subprocess.Popen(  # noqa: S603  (a program that we have looked for)
                list(map(str, command)), stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        self._wait(self._answers, _BEGIN_SECONDS, "did not start")

    def stop(self, how: Stop, before: Callable[[], object] = lambda: None) -> None:
        """Stop it, and wait until it has ended. Of ``before`` is made sure first; it is stopped right after."""
        server = int(self._pid_file.read_text(encoding="utf-8").split()[0])
        self._leave_folder()
        before()
        os.kill(server, how.value)
        self._wait(lambda: not self._pid_file.exists(), _END_SECONDS, "did not stop")
        self._forget_guard()

    @property
    def pid(self) -> int | None:
        """Of the supervisor that runs it, None when it was stopped. Killed with all its children it can be started."""
        return self._guard.pid if self._guard else None

    def connect(self) -> psycopg.Connection:
        """As its administrator."""
        return psycopg.connect(
            host=str(self._folder), port=self.port, user=_ADMINISTRATOR, dbname="postgres", autocommit=True
        )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def _make(self) -> None:
        initdb = [self._programs / "initdb", "-D", self._data, "-U", _ADMINISTRATOR, *_AUTHENTICATION]
        command = [*self._be_another, *map(str, initdb), *([] if self._disk else ["--no-sync"]), "-E", "UTF8"]
        # in a folder that the other user may enter
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)  # noqa: S603  (see above)
        if done.returncode:
            raise LocalPostgresqlError(f"{command} failed: {done.stdout}{done.stderr}")

    def _answers(self) -> bool:
        if self._guard is None or self._guard.poll() is not None:
            raise LocalPostgresqlError(f"PostgreSQL did not start: {self.log[-2_000:]}")
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _wait(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise LocalPostgresqlError(f"PostgreSQL {otherwise} within {seconds:.0f} s: {self.log[-2_000:]}")
            time.sleep(_LOOK_SECONDS)

    def _leave_folder(self) -> None:
        """The supervisor would remove it when the server ends, so it stands still, and is killed then."""
        if self._guard is not None:
            self._guard.send_signal(signal.SIGSTOP)

    def _forget_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
        self._guard = None

    def _end(self) -> None:
        # at once, whoever is connected; the supervisor would wait for the clients first
        try:
            if self._guard is not None and self._pid_file.exists():
                self.stop(Stop.FAST)
        finally:
            self._forget_guard()
            shutil.rmtree(self._folder, ignore_errors=True)


def _programs() -> Path:
    """The folder that holds PostgreSQL's programs: of the path, else Debian's newest."""
    found = shutil.which("initdb")
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders = sorted(debian, key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()])
    for folder in [*([Path(found).resolve().parent] if found else []), *reversed(folders)]:
        if all((folder / name).exists() for name in _PROGRAMS):
            return folder
    raise InstallationError("PostgreSQL is not installed here (Debian: apt-get install postgresql).")


def _be_another() -> list[str]:
    """PostgreSQL refuses to run as root: what to put before a command then."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise InstallationError("PostgreSQL does not run as root, and there is no setpriv to be somebody else.")
    user = pwd.getpwnam(_server_user())
    return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _server_user() -> str:
    return "postgres" if "postgres" in {user.pw_name for user in pwd.getpwall()} else "nobody"
