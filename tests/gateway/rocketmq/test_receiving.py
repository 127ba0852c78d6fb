"""What gRPC may hold of messages that do not come to their end, and of connections."""

import asyncio
import struct
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import grpc
import pytest

from gateway.load import BytesInFlight
from gateway.rocketmq import server as server_module
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls
from tests.gateway.rocketmq.calling import PLACE, TOPIC, Caller, Serving, serving, until
from tests.gateway.scene import KEYS, Scene

SETTINGS = calls.TelemetryCommand(settings=v2.Settings(publishing=v2.Publishing(topics=[TOPIC])))
MIB = 1 << 20


class Unfinished:
    """A call of which gRPC has no whole message, or those of ``messages``."""

    def __init__(self, caller: Caller, *messages: bytes) -> None:
        self._caller = caller
        self._messages = [*messages]
        self.reads = 0

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return self._caller.metadata

    async def read(self) -> bytes:
        self.reads += 1
        if self._messages:
            return self._messages.pop(0)
        await asyncio.Event().wait()
        return b""


def handlers(there: Serving, receiving: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Of each call, as gRPC has them."""
    receiving = receiving or defaultdict(lambda: server_module._Receiving(5 * MIB))
    return {
        method.name: server_module._handler(method, there.service, lambda *_: None, receiving)
        for method in server_module._SERVICE.methods
    }


async def test_of_an_account_so_many_unfinished_requests_are_read_and_no_more(guarded: Scene) -> None:
    """100 of them held 507 MiB."""
    async with serving(guarded) as there:
        send = handlers(there)["SendMessage"].stream_unary
        shop = [Unfinished(there.caller("c", "shop-1", KEYS["shop-1"])) for _ in range(20)]
        tasks = [asyncio.ensure_future(send(None, context)) for context in shop]
        await until(lambda: sum(context.reads for context in shop) == 8)
        request = calls.HeartbeatRequest().SerializeToString()
        other = Unfinished(there.caller("c", "other-1", KEYS["other-1"]), request)
        answer = await handlers(there)["Heartbeat"].stream_unary(None, other)
        assert answer.status.code == v2.UNRECOGNIZED_CLIENT_TYPE, "another account has room"
        assert sum(context.reads for context in shop) == 8
        tasks[0].cancel()
        await until(lambda: sum(context.reads for context in shop) == 9)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_of_who_is_not_known_nothing_is_read(guarded: Scene) -> None:
    async with serving(guarded) as there:
        stranger = Unfinished(there.caller("c", "shop-1", "x" * 40))
        assert (await handlers(there)["SendMessage"].stream_unary(None, stranger)).status.code == v2.UNAUTHORIZED
        assert [answer.status.code async for answer in handlers(there)["AckMessage"].stream_stream(None, stranger)] == [
            v2.NOT_IMPLEMENTED
        ]
        (answer,) = [answer async for answer in handlers(there)["Telemetry"].stream_stream(None, stranger)]
        assert answer.status.code == v2.UNAUTHORIZED
        assert stranger.reads == 0


async def test_a_request_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_UNFINISHED_SECONDS", 0.05)
    async with serving() as there:
        answer = await handlers(there)["SendMessage"].stream_unary(None, Unfinished(there.caller()))
        assert answer.status.code == v2.BAD_REQUEST
        assert "within 0.05 s" in answer.status.message


async def test_of_many_streams_few_are_read_after_their_first_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 streams with an unfinished command held 817 MiB. Python's client sends its first one after minutes."""
    monkeypatch.setattr(server_module, "_UNFINISHED_SECONDS", 0.05)
    async with serving() as there:
        receiving = server_module._Receiving(5 * MIB)
        telemetry = handlers(there, {"": receiving})["Telemetry"].stream_stream
        silent = [Unfinished(there.caller(f"s{number}")) for number in range(16)]
        streams = [telemetry(None, context) for context in silent]
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await until(receiving.further_commands.locked)
        heard = Unfinished(there.caller("heard"), *[SETTINGS.SerializeToString()] * 3)
        stream = telemetry(None, heard)
        assert (await anext(stream)).status.code == v2.OK
        more = asyncio.ensure_future(anext(stream))
        unheard = telemetry(None, Unfinished(there.caller("unheard")))
        assert [answer async for answer in unheard] == [], "it has ended"
        assert heard.reads == 1
        assert there.streams.has(there.scene.accounts.of_rocketmq({}), "heard")
        assert not more.done()
        for task in (*waiting, more):
            task.cancel()
        await asyncio.wait([*waiting, more])


async def test_an_account_has_so_many_streams_and_a_client_four() -> None:
    async with serving() as there:
        there.scene.accounts.streams = BytesInFlight(1 << 20)  # of 16 streams, half of them the account's
        caller = there.caller()
        first, _ = await caller.settled()
        for _ in range(4):
            await caller.settled()
        assert await first.code() == grpc.StatusCode.OK
        others = [await there.caller(f"c{number}").settled() for number in range(4)]
        refused = there.caller("refused").stream()
        assert (await refused.read()).status.code == v2.TOO_MANY_REQUESTS
        others[0][0].cancel()
        await until(lambda: len(there.streams._streams) == 4)
        await there.caller("taken").settled()


async def test_further_connections_are_closed() -> None:
    async with serving(connections=3) as there:
        opened = [await asyncio.open_connection("127.0.0.1", there.port) for _ in range(5)]
        ended = [asyncio.ensure_future(_ended(reader)) for reader, _ in opened]
        await until(lambda: sum(task.done() for task in ended) == 2)
        for task, (_, writer) in zip(ended, opened, strict=True):
            task.cancel()
            writer.close()


async def _ended(reader: asyncio.StreamReader) -> None:
    while await reader.read(1_000):
        pass


class Frames:
    """Sends as much of unfinished messages as HTTP/2's windows allow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._windows = {0: 65_535}
        self._left: dict[int, int] = {}
        """Bytes of each message but the last one."""
        self.sent = 0

    def frame(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        self._writer.write(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream))
        self._writer.write(payload)

    def call(self, stream: int, size: int) -> None:
        texts = {":path": f"{PLACE}SendMessage", "content-type": "application/grpc", "te": "trailers"}
        texts.update({":authority": "a", "x-mq-client-id": "c"})
        spelled = (
            bytes([0, len(name)]) + name.encode() + bytes([len(text)]) + text.encode() for name, text in texts.items()
        )
        self.frame(1, 4, stream, b"\x83\x86" + b"".join(spelled))
        self._windows[stream], self._left[stream] = 65_535, size - 1
        self._send(stream, struct.pack(">BI", 0, size))

    def _send(self, stream: int, content: bytes) -> None:
        self.frame(0, 0, stream, content)
        self.sent += len(content)
        for place in (0, stream):
            self._windows[place] -= len(content)

    async def fill(self) -> None:
        """Send what may be sent."""
        for stream in self._left:
            while (size := min(self._windows[0], self._windows[stream], self._left[stream], 16_384)) > 0:
                self._send(stream, b"\n" * size)
                self._left[stream] -= size
        await self._writer.drain()

    async def hear(self) -> int:
        """Take a frame; its kind."""
        head = await self._reader.readexactly(9)
        payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        if kind == 4 and not flags:
            for name, number in struct.iter_unpack(">HI", payload):
                if name == 4:
                    self._windows = {key: value + (number - 65_535) * (key > 0) for key, value in self._windows.items()}
            self.frame(4, 1, 0)
        elif kind == 6 and not flags:
            self.frame(6, 1, 0, payload)
        elif kind == 8:
            self._windows[stream] += int.from_bytes(payload, "big")
        return kind


async def test_what_is_not_read_is_not_sent_either() -> None:
    """Windows that grow with the speed of a connection let clients send what nobody reads."""
    async with serving() as there:
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
        frames = Frames(reader, writer)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        frames.frame(4, 0, 0)
        for stream in range(1, 61, 2):
            frames.call(stream, 4 * MIB)
        quiet = 0
        while quiet < 5:  # answers to pings without a larger window
            await frames.fill()
            frames.frame(6, 0, 0, b"12345678")
            before = frames.sent
            while await frames.hear() != 6:
                await frames.fill()
            quiet = quiet + 1 if frames.sent == before else 0
        writer.close()
        assert frames.sent < (8 * 4 + 30 / 16 + 1) * MIB
