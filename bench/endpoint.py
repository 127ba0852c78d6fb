"""Check endpoints for measurements: many ports of one process, which answer *commit* at once, or never."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import orjson

from bench.running import party
from checkback.exceptions import CheckbackError

_START_SECONDS = 60.0
_ONE = orjson.dumps({"state": "commit"})


class Answering(asyncio.Protocol):
    """As little HTTP as the check service needs, so that the measurement is of the service."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = transport  # type: ignore[assignment]  # TCP's is one that writes

    def data_received(self, data: bytes) -> None:
        """Answer once a whole request is there."""
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._received = rest[length:]
        body = self.answer(orjson.loads(rest[:length]))
        if self._transport is not None:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )

    def answer(self, question: dict[str, Any]) -> bytes:
        """The body that answers one check, or several."""
        if "checks" not in question:
            return _ONE
        return orjson.dumps({"answers": [{"id": check["id"], "state": "commit"} for check in question["checks"]]})


class Hanging(asyncio.Protocol):
    """Takes everything and says nothing."""


def serve_endpoints(answering: int, hanging: int, cores: Sequence[int], ports: Connection) -> None:
    """Serve so many of each kind on free ports, which are sent as two lists; runs until the process is ended."""
    pin(cores)
    asyncio.run(_serve(answering, hanging, ports))


async def _serve(answering: int, hanging: int, ports: Connection) -> None:
    loop = asyncio.get_running_loop()
    kinds: list[list[int]] = []
    for protocol, number in ((Answering, answering), (Hanging, hanging)):
        servers = [await loop.create_server(protocol, "127.0.0.1", 0, backlog=1024) for _ in range(number)]
        kinds.append([server.sockets[0].getsockname()[1] for server in servers])
    ports.send(kinds)
    await asyncio.Event().wait()


def pin(cores: Sequence[int]) -> None:
    """Keep this process to these cores; none, or a system that cannot: anywhere."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


@contextmanager
def endpoint_ports(answering: int, hanging: int = 0, cores: Sequence[int] = ()) -> Iterator[list[list[int]]]:
    """A process with so many of each kind, kept to these cores; the ports of either.

    Raises:
        CheckbackError: it has not started.
    """
    with party(serve_endpoints, answering, hanging, cores) as process:
        if not process.poll(_START_SECONDS):
            raise CheckbackError("The process of the check endpoints has not started.")
        yield process.recv()


@contextmanager
def commit_endpoint(group: str) -> Iterator[dict[str, str]]:
    """One that answers a group's checks, and the job's setting that names it."""
    with endpoint_ports(1) as ((port,), _):
        yield {"CHECKS__ENDPOINTS": json.dumps({group: [f"http://127.0.0.1:{port}/"]})}
