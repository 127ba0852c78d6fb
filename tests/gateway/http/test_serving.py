"""The HTTP server of a gateway under many connections, without Kafka."""

import asyncio
import logging
import shutil
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from checkback.answering import http_connections
from gateway import process
from gateway.process import HttpServer
from tests.safe_kafka import certificates


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("live")(scope, receive, send)


async def test_idle_connections_leave_files_for_probes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """2,000 connections used up the files of a process, which logged nothing."""
    monkeypatch.setattr(process._GatewayConnection, "most", 10)
    with caplog.at_level(logging.WARNING, "checkback.answering"):
        server = HttpServer(live, "127.0.0.1", 0)
        server.start()
        opened = []
        for number in range(40):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST /v1 HTTP/1.1\r\nhost: a\r\n" if number % 2 else b"")
            opened.append((reader, writer))
        async with asyncio.timeout(5):
            assert await opened[0][0].read() == b"", "the oldest one has ended"
        async with httpx.AsyncClient(timeout=5) as client:
            assert (await client.get(f"http://127.0.0.1:{server.port}/live")).text == "live"
        for _, writer in opened:
            writer.close()
        await server.stop()
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("checkback.answering")]
    assert "10 connections" in line


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.parametrize(("sent", "shaken"), [(b"", 1), (b"\x16", 8)], ids=["silent", "begun"])
async def test_handshakes_that_do_not_end_make_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, shaken: int
) -> None:
    """3,100 silent clients kept everybody out for 10 s, and each took 0.05 MiB."""
    certificates(tmp_path)
    monkeypatch.setattr(process._TlsConnection, "most", 5)
    monkeypatch.setattr(http_connections, "_HANDSHAKES", 5)
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    loop, calls = asyncio.get_running_loop(), list[object]()
    plain = loop.connect_accepted_socket

    async def counted(*given: Any, **named: Any) -> Any:
        calls.append(given)
        return await plain(*given, **named)

    monkeypatch.setattr(loop, "connect_accepted_socket", counted)
    server = HttpServer(live, "127.0.0.1", 0, (str(tmp_path / "broker.pem"), str(tmp_path / "broker.key")))
    server.start()
    opened = list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
    for number in range(7):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        opened.append((reader, writer))
        if number == 6:
            async with asyncio.timeout(5):
                with suppress(ConnectionError):
                    assert await opened[0][0].read() == b"", "the oldest one has ended"
    async with httpx.AsyncClient(timeout=5, verify=context) as client:
        assert (await client.get(f"https://127.0.0.1:{server.port}/live")).text == "live"
    made = len(calls)
    for _, writer in opened:
        writer.close()
    await server.stop()
    assert made == shaken


async def test_one_handshake_begins_in_a_turn_of_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 at once stopped everything else for 1.1 s of CPU."""
    certificates(tmp_path)
    loop, turns, turn = asyncio.get_running_loop(), list[int](), 0

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(next_turn)

    async def counted(*_given: Any, **_named: Any) -> None:
        turns.append(turn)

    monkeypatch.setattr(loop, "connect_accepted_socket", counted)
    server = HttpServer(live, "127.0.0.1", 0, (str(tmp_path / "broker.pem"), str(tmp_path / "broker.key")))
    server.start()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for client in clients:
        client.sendall(b"\x16")
    next_turn()
    async with asyncio.timeout(5):
        while len(turns) < len(clients):  # noqa: ASYNC110  (the loop's next turn)
            await asyncio.sleep(0)
    await server.stop()
    for client in clients:
        client.close()
    assert len(set(turns)) == len(turns)


def test_tls_connections_take_less_than_512_mib() -> None:
    """2,900 took 1.1 GiB."""
    assert process._TlsConnection.most + http_connections._HANDSHAKES <= 1_150
