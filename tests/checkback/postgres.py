"""A real PostgreSQL for tests: its own folder, a unix socket, a port only for JDBC, gone with who started it."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from checkback.local import supervisor
from tests.place import wait_until

_AUTHENTICATION = ("--auth-local=trust", "--auth-host=scram-sha-256")
_PROGRAMS = ("initdb", "pg_ctl", "postgres")


def free_port() -> int:
    """One that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running_postgres(port: int | None = None) -> Iterator[URL]:
    """Start a server; skips the test, with the reason, where PostgreSQL is not installed.

    The URL is that of its unix socket, where everybody is trusted. With a port it listens there, too, on this machine
    only, and asks for passwords.
    """
    programs, be_another = _programs(), _be_another()
    folder = Path(tempfile.mkdtemp(prefix="checkback-pg-"))
    data = folder / "data"
    try:
        if be_another:
            shutil.chown(folder, _server_user())
        _run(*be_another, programs / "initdb", "-D", data, "-U", "test", *_AUTHENTICATION, "--no-sync", "-E", "UTF8")
        # without a port no TCP: the socket lies in the folder, so two servers never meet
        address = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}"] if port else ["-c", "listen_addresses="]
        settings = [*address, "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        command = [*be_another, programs / "postgres", "-D", data, *settings]
        with (
            (folder / "log").open("wb") as log,
            # ends the server and removes the folder even when this process is killed
            subprocess.Popen(
                [sys.executable, str(supervisor.__file__), str(folder), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            ) as guarded,
        ):
            try:
                wait_until(lambda: _answers(folder, port, guarded), 60, "PostgreSQL")
                query = {"host": str(folder), **({"port": str(port)} if port else {})}
                yield URL.create("postgresql+psycopg", "test", database="postgres", query=query)
            finally:
                # at once, whoever is connected; the supervisor would wait for the clients first, and waits for the end
                subprocess.run([*be_another, programs / "pg_ctl", "-D", data, "-W", "-m", "fast", "stop"], check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(folder: Path, port: int | None, guarded: subprocess.Popen[bytes]) -> bool:
    assert guarded.poll() is None, f"PostgreSQL did not start: {(folder / 'log').read_text()[-2_000:]}"
    try:
        psycopg.connect(host=str(folder), port=port, user="test", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _programs() -> Path:
    """The folder that holds PostgreSQL's programs: of the path, else Debian's newest."""
    found = shutil.which("initdb")
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    folders = sorted(debian, key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()])
    for folder in [*([Path(found).resolve().parent] if found else []), *reversed(folders)]:
        if all((folder / name).exists() for name in _PROGRAMS):
            return folder
    pytest.skip("PostgreSQL is not installed here (Debian: apt-get install postgresql)")


def _be_another() -> list[str]:
    """PostgreSQL refuses to run as root: what to put before a command then."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv to be somebody else")
    user = pwd.getpwnam(_server_user())
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _server_user() -> str:
    return "postgres" if "postgres" in {user.pw_name for user in pwd.getpwall()} else "nobody"


def _run(*command: str | Path) -> None:
    # in a folder that the other user may enter
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, f"{command} failed: {done.stdout}{done.stderr}"
