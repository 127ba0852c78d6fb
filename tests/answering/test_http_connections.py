"""What a single connection may cost a server."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from checkback.answering import http_connections
from checkback.answering.http_connections import _TURN_SECONDS, BoundedConnection, Turns


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
            while (connection.tasks or connection._waits) and not transport.closed:  # noqa: ASYNC110  (nothing tells)
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
    """Notes when it is parsed, which takes ``seconds`` of the clock."""

    def __init__(self, network: str, parsed: list[str], clock: list[float], seconds: float, *, probe: bool) -> None:
        self.network, self.is_probe = network, probe
        self._noted, self._clock, self._seconds = (parsed, clock, seconds)

    def parse(self) -> None:
        self._clock[0] += self._seconds
        self._noted.append(self.network)


class Loop:
    """Turns whose clock the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed, self._clock, self.turns = list[str](), [0.0], Turns()
        monkeypatch.setattr(http_connections, "monotonic", lambda: self._clock[0])

    def receive(self, network: str, seconds: float = _TURN_SECONDS / 20, *, probe: bool = False) -> bool:
        connection: Any = _Connection(network, self.parsed, self._clock, seconds, probe=probe)
        admitted = self.turns.admit(connection)
        if admitted:
            connection.parse()
        return admitted

    def next_turn(self) -> list[str]:
        self.parsed.clear()
        self.turns._turn()
        return self.parsed


async def test_a_turn_takes_as_long_whatever_requests_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads were counted: 1,000 with 490 chunks of one byte each stopped the loop for 0.5 s."""
    loop = Loop(monkeypatch)
    assert [loop.receive("flood") for _ in range(1_000)] == [True] * 20 + [False] * 980
    assert loop.next_turn() == ["flood"] * 20
    costly = Loop(monkeypatch)
    assert [costly.receive("flood", 3 * _TURN_SECONDS) for _ in range(10)] == [True] + [False] * 9
    assert costly.next_turn() == ["flood"]
    while loop.turns._others:
        loop.next_turn()
    loop.next_turn()
    assert loop.receive("other"), "without a flood nothing waits"


async def test_a_probe_waits_for_no_flood_of_any_number_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request of each of 3,000 addresses came before it: 13.6 s."""
    loop = Loop(monkeypatch)
    for number in range(3_000):
        loop.receive(f"10.0.0.{number}")
    loop.receive("probe", probe=True)
    assert loop.next_turn()[0] == "probe"
    assert len(loop.parsed) == 21, "others have as much time"


async def test_another_address_waits_for_one_request_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    for _ in range(1_000):
        loop.receive("flood")
    loop.receive("other")
    assert loop.next_turn()[:3] == ["flood", "other", "flood"]


async def test_each_request_behind_another_one_takes_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uvicorn parses the next one with the answer before: 1,000 connections with 400 each stopped the loop for 1 s."""
    gates = list[BoundedConnection]()

    def refuse(_: Turns, connection: BoundedConnection) -> bool:
        gates.append(connection)
        return False

    monkeypatch.setattr(Turns, "admit", refuse)
    connection, transport = connected()
    connection.data_received(4 * (LENGTH + b"\r\n"))
    for number in range(1, 5):
        assert len(gates) == number
        connection.parse()
        async with asyncio.timeout(5):
            while transport.written.count(b"HTTP/1.1 200 ") < number:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(0)
    connection.connection_lost(None)


def connected() -> tuple[BoundedConnection, Transport]:
    connection = BoundedConnection(
        uvicorn.Config(length, lifespan="off", log_config=None), uvicorn.server.ServerState(), {}
    )
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


@pytest.mark.parametrize(
    ("data", "probe"),
    [
        ((b"GET /healthz HTTP/1.1\r\n",), True),
        ((b"GET /api HTTP/1.1\r\n",), False),
        ((LENGTH.replace(b": 0", b": 30") + b"\r\n", b"GET /healthz HTTP/1.1\r\n"), False),
    ],
)
async def test_a_body_is_no_probe(monkeypatch: pytest.MonkeyPatch, data: tuple[bytes, ...], *, probe: bool) -> None:
    connection, _ = connected()
    for part in data[:-1]:
        connection.data_received(part)
    monkeypatch.setattr(Turns, "admit", lambda *_: False)
    connection.data_received(data[-1])
    assert connection.is_probe == probe
    connection.connection_lost(None)


async def test_a_client_whose_request_is_not_parsed_yet_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the connections of a flood would end it as one that is idle."""
    monkeypatch.setattr(Turns, "admit", lambda *_: False)
    connection, _ = connected()
    assert not connection.asked
    connection.data_received(b"GET / HTTP/1.1\r\n")
    assert connection.asked
    assert connection.timeout_keep_alive_task is None, "which would end it"
    connection.parse()
    assert not connection.asked
    connection.connection_lost(None)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        ("", ""),
    ],
)
def test_addresses_of_an_ipv6_network_are_one(address: str, network: str) -> None:
    assert http_connections.network_of(address) == network
