"""The HTTP server of a gateway under many connections, without Kafka."""

import asyncio
import logging

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gateway import process
from gateway.process import HttpServer


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("live")(scope, receive, send)


def test_idle_connections_leave_files_for_probes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """2,000 connections used up the files of a process, which logged nothing."""
    monkeypatch.setattr(process._GatewayConnection, "most", 10)

    async def run() -> None:
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

    with caplog.at_level(logging.WARNING, "checkback.answering"):
        asyncio.run(run())
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("checkback.answering")]
    assert "10 connections" in line
