"""A real MariaDB of our own: its own folder, a unix socket and no port, gone with who started it.

With ``CHECKBACK_MYSQLD``, the path of a MySQL's ``mysqld``, it is one of these.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from sqlalchemy import URL, create_engine, text

from checkback.exceptions import CheckbackError, InstallationError
from checkback.local import supervisor

# Begun on an empty folder: mariadb-install-db would fill it with the tables of users and rights, which nobody asks
# about here, for seconds. It keeps what was committed when it is killed (2: handed to the system at each commit), not
# when the machine is.
_SETTINGS = (
    "--skip-networking",
    "--innodb-stats-persistent=OFF",  # their table is one of those
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=32M",
    "--max-connections=151",
)
_MYSQLD = os.environ.get("CHECKBACK_MYSQLD")
ON_MYSQL = _MYSQLD is not None
_OWN_SETTINGS = (
    ("--mysqlx=OFF", "--skip-log-bin", "--performance-schema=OFF", "--secure-file-priv=NULL")
    if ON_MYSQL
    else ("--skip-grant-tables", "--innodb-log-file-size=16M")
)
_BEGIN_SECONDS = 120.0
_LOOK_SECONDS = 0.05


class LocalMariadbError(CheckbackError):
    """It does not do what it should; says what its log says."""


class LocalMariadb:
    """Runs while it is entered, and can be stopped and started again.

    Raises:
        InstallationError: MariaDB is not installed here.
        LocalMariadbError: it did not start.
    """

    def __init__(self) -> None:
        self._server = _program()
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="checkback-mariadb-"))
        try:
            if ON_MYSQL:
                self._fill_folder()
            else:
                (self._folder / "data").mkdir()
            self.start()
            engine = create_engine(self.url.set(database=""))
            with engine.begin() as connection:
                connection.execute(text("CREATE DATABASE shop"))
            engine.dispose()
            # the files that a first start on an empty folder makes survive no crash before they are closed once
            self.stop()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> URL:
        """That of its unix socket, where everybody may do everything."""
        return URL.create("mysql+pymysql", "root", database="shop", query={"unix_socket": str(self._socket)})

    @property
    def log(self) -> str:
        """What it has said."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [f"--socket={self._socket}", f"--pid-file={self._pid_file}", *_SETTINGS, *_OWN_SETTINGS]
        server = [self._server, "--no-defaults", *self._place(), *settings]
        # ends the server and removes the folder even when this process is killed
        command = [sys.executable, supervisor.__file__, str(self._folder), *server]
        self._log = (self._folder / "log").open("ab+")  # stays open: the guard of one that fails removes the folder
        self._guard = subprocess.Popen(  # noqa: S603  (a program that we have looked for)
            command, stdin=subprocess.PIPE, stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + _BEGIN_SECONDS
        while not self._answers():
            if time.monotonic() > deadline:
                raise LocalMariadbError(f"MariaDB did not start within {_BEGIN_SECONDS:.0f} s: {self._said()}")
            time.sleep(_LOOK_SECONDS)

    def kill(self, before: Callable[[], object] = lambda: None) -> None:
        """It crashes: SIGKILL. ``before`` is called right before."""
        self.stop(signal.SIGKILL, before)

    def stop(self, how: signal.Signals = signal.SIGTERM, before: Callable[[], object] = lambda: None) -> None:
        """Stop it, by SIGTERM in order, whoever is connected, and wait until it has ended; likewise."""
        if self._guard is None:
            return
        self._guard.send_signal(signal.SIGSTOP)  # it would remove the folder when the server ends
        server = int(self._pid_file.read_text(encoding="utf-8"))
        handle = os.pidfd_open(server)
        before()
        os.kill(server, how)
        ended = select.poll()  # not select(), which fails in a process that has more than 1,024 files
        ended.register(handle, select.POLLIN)
        ended.poll()  # until it has let go of its files
        os.close(handle)
        for left in (self._pid_file, self._socket, self._folder / "socket.lock"):
            left.unlink(missing_ok=True)
        self._guard.kill()
        self._guard.communicate()
        self._log.close()

    @property
    def _socket(self) -> Path:
        return self._folder / "socket"

    @property
    def _pid_file(self) -> Path:
        return self._folder / "pid"

    def _fill_folder(self) -> None:
        """Which a MySQL wants, and takes seconds for."""
        command = [self._server, "--no-defaults", *self._place(), "--initialize-insecure"]
        with (self._folder / "log").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=True)  # noqa: S603  (see above)

    def _place(self) -> list[str]:
        return [f"--datadir={self._folder / 'data'}", *(["--user=root"] if os.geteuid() == 0 else [])]

    def _answers(self) -> bool:
        if self._guard is None or self._guard.poll() is not None:
            raise LocalMariadbError(f"MariaDB did not start: {self._said()}")
        if not (self._pid_file.exists() and self._pid_file.stat().st_size):  # who it is it may say after it listens
            return False
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(str(self._socket))
                return bool(one.recv(1))
            except OSError:
                return False

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2_000:]

    def _end(self) -> None:
        if self._guard is not None and self._guard.poll() is None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _program() -> str:
    if _MYSQLD:
        return _MYSQLD
    found = shutil.which("mariadbd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        raise InstallationError("MariaDB is not installed here (Debian: apt-get install mariadb-server-core).")
    return found
