"""The HTTP server of a gateway under many connections, without Kafka."""

import asyncio
import logging
import shutil
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from checkback.answering.http_connections import TlsConnection, Turns
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
@pytest.mark.parametrize("sent", [b"", b"\x16"], ids=["silent", "begun"])
async def test_handshakes_that_do_not_end_make_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """3,100 silent clients kept everybody out for 10 s, and each took 0.05 MiB."""
    certificates(tmp_path)
    monkeypatch.setattr(process._TlsConnection, "most", 5)
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
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
    for _, writer in opened:
        writer.close()
    await server.stop()


async def test_tls_is_decrypted_in_turns_of_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 handshakes at once stopped everything else for 1.1 s of CPU, tiny records for seconds."""
    certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    waiting = asyncio.Queue[Any]()
    monkeypatch.setattr(Turns, "admit", lambda _, connection: waiting.put_nowait(connection))
    server = HttpServer(live, "127.0.0.1", 0, (str(tmp_path / "broker.pem"), str(tmp_path / "broker.key")))
    server.start()
    async with asyncio.timeout(20), httpx.AsyncClient(timeout=20, verify=context) as client:
        answer = asyncio.create_task(client.get(f"https://127.0.0.1:{server.port}/live"))
        kinds = []
        while not answer.done():
            one = asyncio.create_task(waiting.get())
            await asyncio.wait([one, answer], return_when=asyncio.FIRST_COMPLETED)
            if one.done():
                kinds.append(type(one.result()))
                one.result().parse()
        assert (await answer).text == "live"
    assert kinds[:2] == [TlsConnection, TlsConnection], "of the handshake"
    assert kinds[-1] is process._TlsConnection
    await server.stop()


async def test_a_server_that_stops_serves_none_that_still_arrives(tmp_path: Path) -> None:
    """A client that had begun its handshake was answered five seconds after the stop."""
    certificates(tmp_path)
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    server = HttpServer(live, "127.0.0.1", 0, (str(tmp_path / "broker.pem"), str(tmp_path / "broker.key")))
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while not server._server._arriving:  # noqa: ASYNC110  (nothing tells)
        await asyncio.sleep(0)
    await server.stop()
    with pytest.raises(ConnectionError):
        await writer.start_tls(context, server_hostname="127.0.0.1")
    assert reader.at_eof() or reader.exception()


def test_tls_connections_take_less_than_512_mib() -> None:
    """2,900 took 1.1 GiB."""
    assert process._TlsConnection.most <= 1_150
