"""What a single connection may cost a server."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from checkback.answering.http_connections import _READ_BYTES, _READS_A_TURN, BoundedConnection, _Reads


async def length(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(str(len(await Request(scope, receive).body())))(scope, receive, send)


class Transport(asyncio.Transport):
    """A connection whose client is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answered(*requests: bytes) -> tuple[bytes, Transport]:
    """What a server answers to the last request, all on one connection."""

    async def run() -> tuple[bytes, Transport]:
        config = uvicorn.Config(length, lifespan="off", log_config=None)
        transport = Transport()
        connection = BoundedConnection(config, uvicorn.server.ServerState(), {})
        connection.connection_made(transport)
        for request in requests:
            transport.written = b""
            connection.data_received(request)
            while (connection.tasks or connection._unparsed) and not transport.closed:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(0)
        connection.connection_lost(None)
        return transport.written, transport

    return asyncio.run(run())


def chunked(size: int, number: int) -> bytes:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n" % (size, b"x" * size) * number + b"0\r\n\r\n"


@pytest.mark.parametrize(("size", "number"), [(1, 400), (200, 5_000), (65_536, 10)])
def test_chunks_of_sensible_sizes_are_read(size: int, number: int) -> None:
    written, _ = answered(chunked(size, number), chunked(size, number))
    assert written.endswith(b"\r\n\r\n%d" % (size * number))


def test_a_body_in_very_many_tiny_chunks_is_refused() -> None:
    """Eight such bodies of 1.5 MB stopped a gateway for 18 s."""
    written, transport = answered(chunked(1, 1_000))
    assert written.startswith(b"HTTP/1.1 400 ")
    assert transport.closed


LENGTH = b"POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 0\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\ncontent-length: 0\r\n\r\n",
        b"POST / HTTP/1.1\nhost: a\ncontent-length: 0\n\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\n",
        chunked(1, 1).removesuffix(b"\r\n") + b"trailer: x\n\r\n",
        LENGTH + b"a: b\r\n c\r\n\r\n",
        LENGTH + b"\ta: b\r\n\r\n",
        LENGTH + b"a: b\rc\r\n\r\n",
        LENGTH + b"a: b\r\r\n\r\n",
        LENGTH + b"content-length: 0\r\n\r\n",
        LENGTH.replace(b": 0", b": 0, 0") + b"\r\n",
        LENGTH.replace(b"1.1", b"1.2") + b"\r\n",
        LENGTH.replace(b"1.1", b"2.0") + b"\r\n",
        chunked(1, 1).replace(b"1\r\nx", b"1;a=b\r\nx"),
        chunked(1, 1).replace(b"1\r\nx", b"1;a\rb\r\nx"),
        chunked(1, 1).replace(b"1\r\nx", b"1 \r\nx"),
        chunked(1, 1).replace(b"1\r\nx", b"000000001\r\nx"),
    ],
    ids=[
        *(
            "both lengths",
            "bare LF",
            "bare LF alone",
            "at the end",
            "in a trailer",
            "fold",
            "fold with a tab",
            "CR",
            "CR CR",
        ),
        *("length twice", "length listed", "HTTP/1.2", "HTTP/2.0", "extension", "CR in an extension", "blank", "zeros"),
    ],
)
@pytest.mark.parametrize("before", [(), (chunked(1, 1),)], ids=["first", "second"])
def test_what_a_proxy_may_read_in_another_way_is_refused(request_: bytes, before: tuple[bytes, ...]) -> None:
    """Each was taken as a request: a proxy that finds another end of it lets a second one through."""
    written, transport = answered(*before, request_)
    assert transport.closed
    assert not written or written.startswith(b"HTTP/1.1 400 ")


def test_a_head_that_comes_byte_by_byte_is_read() -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
    written, _ = answered(*(head[at : at + 1] for at in range(len(head))))
    assert written.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("lines", [b"a:\r\n" * 15_000, b"a: %b\r\n" % (b"b" * 20_000)], ids=["lines", "bytes"])
def test_a_head_that_comes_in_one_read_is_bounded(lines: bytes) -> None:
    start = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
    assert answered(start + b"a:\r\n" * 100 + b"\r\n")[0].startswith(b"HTTP/1.1 200")
    answer, transport = answered(start + lines + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert transport.closed


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_both_versions_of_http_1_are_read(version: bytes) -> None:
    assert answered(LENGTH.replace(b"1.1", version) + b"\r\n")[0].startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("size", "ended"), [(16_000, False), (20_000, True)])
def test_little_is_kept_behind_a_request_without_an_answer(size: int, *, ended: bool) -> None:
    """3,000 long polls, each with 160 KiB behind it, held 484 MiB."""

    async def never(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        transport = Transport()
        connection = BoundedConnection(
            uvicorn.Config(never, lifespan="off", log_config=None), uvicorn.server.ServerState(), {}
        )
        connection.connection_made(transport)
        connection.data_received(LENGTH + b"\r\n")
        connection.data_received(b"x" * size)
        assert transport.closed == ended
        connection.connection_lost(None)

    asyncio.run(run())


class _Connection:
    """Notes when it is parsed."""

    def __init__(self, address: str, parsed: list[str], cost: int = 1) -> None:
        self.client, self.cost = (address, 1), cost
        self.parse = lambda: parsed.append(address)


def test_other_addresses_and_probes_wait_for_no_flood() -> None:
    """3,000 requests in one moment stopped the loop, and with it all probes, for 4.6 s."""

    async def flood() -> list[str]:
        reads, parsed = _Reads(), list[str]()
        for _ in range(1_000):
            connection: Any = _Connection("flood", parsed)
            if reads.add(connection, b"POST /api HTTP/1.1\r\n"):
                connection.parse()
        first = len(parsed)
        probe: Any = _Connection("probe", parsed)
        other: Any = _Connection("other", parsed)
        assert not reads.add(other, b"GET /api HTTP/1.1\r\n")
        probe.client = ("flood", 2)
        assert not reads.add(probe, b"GET /healthz HTTP/1.1\r\n")
        await asyncio.sleep(0)
        assert first == _READS_A_TURN
        assert {"other", "probe"} < set(parsed[first:])
        assert len(parsed) <= 2 * _READS_A_TURN
        while reads._waiting:  # noqa: ASYNC110  (nothing tells)
            await asyncio.sleep(0)
        assert parsed.count("flood") == 1_000
        await asyncio.sleep(0)
        assert reads.add(other, b"GET"), "without a flood nothing waits"
        return parsed

    asyncio.run(flood())


def test_a_turn_parses_fewer_large_reads() -> None:
    """200 connections with bodies of 8 MiB stopped the loop for 0.5 s, and on a busy machine for 2 s."""

    async def flood() -> None:
        reads, parsed = _Reads(), list[str]()
        for _ in range(200):
            connection: Any = _Connection("flood", parsed, cost=_READS_A_TURN // 2)
            if reads.add(connection, b"of a body"):
                connection.parse()
        for turn in range(1, 90):
            assert len(parsed) == 2 * turn
            await asyncio.sleep(0)
        bounded = BoundedConnection(uvicorn.Config(length, lifespan="off"), uvicorn.server.ServerState(), {})
        bounded._unparsed = bytes(8 * _READ_BYTES)
        assert bounded.cost == 9

    asyncio.run(flood())


def test_a_client_whose_request_is_not_parsed_yet_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the connections of a flood would end it as one that is idle."""
    monkeypatch.setattr(_Reads, "add", lambda *_: False)

    async def flood() -> list[bool]:
        connection = BoundedConnection(uvicorn.Config(length, lifespan="off"), uvicorn.server.ServerState(), {})
        connection.connection_made(Transport())
        states = [connection.asked]
        connection.data_received(b"GET / HTTP/1.1\r\n")
        states.append(connection.asked)
        connection.parse()
        states.append(connection.asked)
        connection.connection_lost(None)
        return states

    assert asyncio.run(flood()) == [False, True, False]
