"""A TCP proxy in front of a Kafka broker. It recognizes requests, and disturbs those that a rule selects."""

import asyncio
import itertools
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Self, TypeVar

T = TypeVar("T")

HOST = "127.0.0.1"
_START_SECONDS = 10.0
_POLL_SECONDS = 0.002
_MID_ANSWER_SECONDS = 0.005
_HEAD = struct.Struct(">hhih")
"""Of a request: API key, version, correlation id, length of the client id."""


class Api(IntEnum):
    """API keys of the requests that transactions consist of, and of those around them."""

    PRODUCE = 0
    METADATA = 3
    OFFSET_COMMIT = 8
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Deed(StrEnum):
    """What the proxy does with a request. Requests behind it on the same connection wait."""

    FORWARD = "forwarded"
    HOLD_AND_CUT = "held back, the connection cut"
    """It arrives later: after ``seconds``, or when a test releases it."""
    DROP_AND_CUT = "lost, the connection cut"
    LOSE_ANSWER = "answer lost, the connection cut"
    CUT_IN_ANSWER = "the connection cut within the answer"
    DELAY = "delayed"
    STALL_REQUESTS = "requests stalled"
    STALL_ANSWERS = "answers stalled"
    TRICKLE = "answer byte by byte"


@dataclass(eq=False)
class Request:
    """A request of a client."""

    api: int
    version: int
    correlation_id: int
    frame: bytes
    """Without its length."""
    connection: "_Connection"
    answer: bytes | None = None

    @property
    def error_code(self) -> int | None:
        """Of the answer to InitProducerId, AddOffsetsToTxn or EndTxn; None while there is none."""
        if self.answer is None:
            return None
        flexible = self.version >= (2 if self.api == Api.INIT_PRODUCER_ID else 3)
        return int(struct.unpack_from(">h", self.answer, 9 if flexible else 8)[0])

    async def arrive(self, seconds: float = 5.0) -> None:
        """Forward a request that was held back, on its old connection, and wait for the broker's answer."""
        self.connection.forward_late(self)
        await until(lambda: self.answer is not None, seconds)


async def until(holds: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait on the proxy's thread until a condition holds.

    Raises:
        TimeoutError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The proxy's condition did not hold within {seconds:g} s.")
        await asyncio.sleep(_POLL_SECONDS)


@dataclass(eq=False)
class Rule:
    """Selects the ``number``-th request (0: each) of an API whose frame contains ``text``, and says what is done."""

    api: Api
    deed: Deed = Deed.FORWARD
    text: bytes = b""
    without: bytes | None = None
    """The frame must not contain this."""
    number: int = 1
    seconds: float = 0.0
    """Of the delay; 0 after HOLD_AND_CUT: until the request is released."""
    reset: bool = True
    """Whether a connection is cut by RST, or by FIN."""
    before: Callable[[Request], Awaitable[object]] | None = None
    """Runs on the proxy's thread before the request goes on."""
    after: "Rule | None" = None
    """Nothing is selected before that one has selected a request."""
    requests: list[Request] = field(default_factory=list)
    """Those selected so far."""
    _count: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def selects(self, request: Request) -> bool:
        """Whether the rule applies to this request."""
        if request.api != self.api or self.text not in request.frame:
            return False
        if self.without is not None and self.without in request.frame:
            return False
        if self.after is not None and not self.after.requests:
            return False
        if next(self._count) != self.number and self.number:
            return False
        self.requests.append(request)
        return True

    @property
    def request(self) -> Request:
        """The first request selected."""
        return self.requests[0]

    @property
    def answered(self) -> bool:
        """Whether the broker has answered the first request selected."""
        return bool(self.requests) and self.request.answer is not None


class KafkaProxy:
    """Listens at a free port, and forwards to the port ``upstream``; use it as a context manager.

    A thread of its own runs it. Threads add rules at any time; the first one that selects a request decides.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.failures: list[Exception] = []
        """What rules' own steps have raised; each has cost its connection."""
        self._rules: list[Rule] = []
        self._connections: set[_Connection] = set()
        """asyncio itself holds streams weakly: one whose client is gone would be collected with what it holds back."""
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-proxy", daemon=True)

    @property
    def address(self) -> str:
        """``host:port`` for clients, and for the broker to advertise."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError(f"The proxy does not listen after {_START_SECONDS:g} s.")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def add(self, *rules: Rule) -> None:
        """Add rules, which come after those that are there."""
        self._rules += rules

    def remove(self, *rules: Rule) -> None:
        """Remove rules."""
        self._rules = [rule for rule in self._rules if rule not in rules]

    def clear(self) -> None:
        """Remove all rules."""
        self._rules = []

    def wait(self, step: Coroutine[Any, Any, T], seconds: float = 30.0) -> T:
        """Run a step such as :meth:`Request.arrive` on the proxy's thread; gives its result."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(seconds)

    def rule_for(self, request: Request) -> Rule | None:
        """The rule that applies to a request."""
        return next((rule for rule in self._rules if rule.selects(request)), None)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stopping.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        with suppress(asyncio.CancelledError):  # the proxy stops; asyncio would print it
            await connection.serve()
        self._connections.discard(connection)


class _Connection:
    """A client's connection, and the one to the broker that belongs to it."""

    def __init__(self, proxy: KafkaProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._from_broker: asyncio.StreamReader
        self._to_broker: asyncio.StreamWriter
        self._sent: dict[int, tuple[Request, Rule | None]] = {}
        self._held: list[Request] = []
        self._cut = False
        self._answers_from = 0.0
        """No answer goes to the client before this (s, monotonic)."""

    async def serve(self) -> None:
        try:
            self._from_broker, self._to_broker = await asyncio.open_connection(HOST, self._proxy.upstream)
        except OSError:
            self.cut(reset=True)
            return
        try:
            await asyncio.gather(self._requests(), self._answers())
        finally:
            self._to_broker.close()

    def cut(self, *, reset: bool) -> None:
        if self._cut:
            return
        self._cut = True
        if reset:
            linger = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    def forward_late(self, request: Request) -> None:
        self._held.remove(request)
        self._send(request, None)

    async def _requests(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while not self._cut:
                await self._treat(_parsed(await _frame(self._reader), self))
        self.cut(reset=False)
        self._finish()

    async def _treat(self, request: Request) -> None:
        rule = self._proxy.rule_for(request)
        if rule is not None:
            if rule.before is not None and not await self._ready(rule.before(request)):
                return
            if rule.deed in {Deed.HOLD_AND_CUT, Deed.DROP_AND_CUT}:
                self.cut(reset=rule.reset)
                if rule.deed is Deed.HOLD_AND_CUT:
                    await self._hold(request, rule.seconds)
                return
            if rule.deed in {Deed.DELAY, Deed.STALL_REQUESTS}:
                await asyncio.sleep(rule.seconds)
            elif rule.deed is Deed.STALL_ANSWERS:
                self._answers_from = time.monotonic() + rule.seconds
        self._send(request, rule)
        await self._to_broker.drain()

    async def _ready(self, step: Awaitable[object]) -> bool:
        try:
            await step
        except Exception as error:  # noqa: BLE001  (a test's own; whoever stops the proxy looks at all of them)
            self._proxy.failures.append(error)
            self.cut(reset=True)
            return False
        return True

    async def _hold(self, request: Request, seconds: float) -> None:
        self._held.append(request)
        if seconds:
            await asyncio.sleep(seconds)
            self.forward_late(request)

    def _send(self, request: Request, rule: Rule | None) -> None:
        self._sent[request.correlation_id] = request, rule
        self._to_broker.write(_framed(request.frame))

    def _finish(self) -> None:
        """End the broker's side when nothing more goes there; what was sent before arrives, as with TCP."""
        lost = any(rule is not None and rule.deed is Deed.LOSE_ANSWER for _, rule in self._sent.values())
        if self._cut and not self._held and not lost:
            with suppress(OSError, RuntimeError):
                self._to_broker.write_eof()

    async def _answers(self) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                await self._answer(await _frame(self._from_broker))
        self.cut(reset=False)

    async def _answer(self, frame: bytes) -> None:
        request, rule = self._sent.pop(struct.unpack_from(">i", frame)[0])
        request.answer = frame
        if (stalled := self._answers_from - time.monotonic()) > 0:
            await asyncio.sleep(stalled)
        if rule is not None and rule.deed is Deed.LOSE_ANSWER:
            self.cut(reset=rule.reset)
        if self._cut:
            self._finish()
            return
        await self._give(_framed(frame), rule)

    async def _give(self, answer: bytes, rule: Rule | None) -> None:
        if rule is not None and rule.deed is Deed.CUT_IN_ANSWER:
            self._writer.write(answer[: len(answer) // 2])
            await asyncio.sleep(_MID_ANSWER_SECONDS)  # a reset at once would discard the half that is on its way
            self.cut(reset=rule.reset)
            return
        if rule is not None and rule.deed is Deed.TRICKLE:
            for at in range(len(answer)):
                self._writer.write(answer[at : at + 1])
                await asyncio.sleep(rule.seconds / len(answer))
            return
        self._writer.write(answer)
        await self._writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _parsed(frame: bytes, connection: _Connection) -> Request:
    api, version, correlation_id, _ = _HEAD.unpack_from(frame)
    return Request(api, version, correlation_id, frame, connection)
