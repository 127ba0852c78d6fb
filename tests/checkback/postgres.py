"""A real PostgreSQL for tests: its own folder, a unix socket and no port, gone with the process that started it."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL

from checkback.local import guard
from tests.place import wait_until

_PROGRAMS = ("initdb", "pg_ctl", "postgres")


@contextmanager
def running_postgres() -> Iterator[URL]:
    """Start a server; skips the test, with the reason, where PostgreSQL is not installed."""
    programs, be_another = _programs(), _be_another()
    folder = Path(tempfile.mkdtemp(prefix="checkback-pg-"))
    data = folder / "data"
    try:
        if be_another:
            shutil.chown(folder, _server_user())
        _run(*be_another, programs / "initdb", "-D", data, "-U", "test", "--auth=trust", "--no-sync", "-E", "UTF8")
        # no TCP: the socket lies in the folder, so two servers never meet
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        command = [*be_another, programs / "postgres", "-D", data, *settings]
        with (
            (folder / "log").open("wb") as log,
            # ends the server and removes the folder even when this process is killed
            subprocess.Popen(
                [sys.executable, guard.__file__, folder, *command], stdin=subprocess.PIPE, stdout=log, stderr=log
            ) as guarded,
        ):
            try:
                wait_until(lambda: _answers(folder, guarded), 60, "PostgreSQL")
                yield URL.create("postgresql+psycopg", "test", database="postgres", query={"host": str(folder)})
            finally:
                # at once, whoever is connected; the guard would wait for the clients first, and waits for the end
                subprocess.run([*be_another, programs / "pg_ctl", "-D", data, "-W", "-m", "fast", "stop"], check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(folder: Path, guarded: subprocess.Popen[bytes]) -> bool:
    assert guarded.poll() is None, f"PostgreSQL did not start: {(folder / 'log').read_text()[-2_000:]}"
    try:
        psycopg.connect(host=str(folder), user="test", dbname="postgres").close()
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
