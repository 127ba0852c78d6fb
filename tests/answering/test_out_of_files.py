"""Probes of a process that has used up its files."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.place import wait_until

PROGRAM = """
import asyncio, logging, os, resource, sys, threading

import uvloop
from starlette.responses import PlainTextResponse

from checkback.local.kafka import free_port
from conf.settings import HttpSettings
from gateway.process import HttpServer
from status_page.http.server import StatusServer


async def app(scope, receive, send):
    await PlainTextResponse("answered")(scope, receive, send)


async def gateway():
    server = HttpServer(app, "127.0.0.1", 0)
    server.start()
    await asyncio.to_thread(used_up, server.port)
    await server.stop()


def used_up(port):
    print(port, flush=True)
    files = []
    for line in sys.stdin:
        try:
            while line == "fill\\n":
                files.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        while files and line == "free\\n":
            os.close(files.pop())
        print("done", flush=True)


logging.basicConfig(level=logging.WARNING)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
if sys.argv[1] == "gateway":
    uvloop.run(gateway())
else:
    page = StatusServer(HttpSettings(port=free_port()), app)
    page.start()
    used_up(page._http.port)
    page.stop()
"""


class Serving:
    """A process that serves."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        self._client = httpx.Client(base_url=url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))

    def status(self, path: str) -> int:
        """Of an answer on a connection of its own."""
        return self._client.get(path).status_code

    def sockets(self) -> int:
        """Open ones of the process. The server ends a connection later than its client, above all under load."""
        return sum(file.is_socket() for file in Path(f"/proc/{self._process.pid}/fd").iterdir())

    def do(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def serving(which: str, log: Path) -> Iterator[Serving]:
    command = [sys.executable, "-c", PROGRAM, which]
    with (
        log.open("w") as lines,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=lines, text=True) as process,
    ):
        yield Serving(process)


@pytest.mark.parametrize("which", ["gateway", "status page"])
def test_probes_are_answered_without_a_free_file_and_it_is_logged(which: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(which, log) as there:
        idle = there.sockets()
        assert there.status("/other") == 200
        wait_until(lambda: there.sockets() == idle)
        there.do("fill")
        for _ in range(20):
            assert [there.status("/healthz"), there.status("/metrics")] == [200, 200]
            assert there.status("/other") == 503
        there.do("free")
        wait_until(lambda: there.status("/other") == 200)
    (line,) = log.read_text().splitlines()
    assert "out of files (ulimit -n)" in line
