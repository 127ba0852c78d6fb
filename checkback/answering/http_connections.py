"""Our own HTTP servers: strict framing, bounds of connections, and probes that are answered without free files."""

import asyncio
import contextlib
import errno
import logging
import math
import os
import re
import socket
from collections import deque
from collections.abc import Iterator
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, h11  # type: ignore[attr-defined]  # its own, without an export

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 60.0
_warned_at: dict[str, float] = {}
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_ACCEPTED_AT_ONCE = 10
_HANDSHAKE_SECONDS = 10.0
_HANDSHAKES = 200
"""At work at once: uvloop takes 0.4 MiB for each TLS connection."""
_PROBES = frozenset({"/healthz", "/live", "/ready", "/metrics"})
_PROBE_LINES = tuple(f"GET {path} ".encode() for path in _PROBES)
_READS_A_TURN = 20
"""That a loop parses in a turn. With the start of its answer one takes 1.5 ms: 3,000 at once stopped it for 4.6 s."""
_READ_BYTES = 32 << 10
"""So many more of a read count as one more read: 200 connections with large bodies stopped a loop for 0.5 s."""
_SPARE_FILES = 16
_SPARE_SECONDS = 2.0
"""For a request on one of them, and for its answer."""
_HEAD_BYTES = 16 * 1024
_HEAD_LINES = 200
"""Of a head that comes in one read, which h11 does not bound: parsing one of 15,000 lines took 80 ms."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}\r\n")
_BEHIND_BYTES = 16 * 1024
"""That a client may send behind a request before it has the answer: 3,000 long polls held 484 MiB."""
_SMALL_CHUNKS = 500
_CHUNK_BYTES = 128
"""Of further chunks on average. A read of 256 KiB has 43,000 chunks of one byte, and parsing them took 2 s."""


class _StrictLines(h11._receivebuffer.ReceiveBuffer):  # noqa: SLF001  (h11 exports no way to be strict)
    """Refuses what a proxy may read in another way: an LF without CR, a line that continues another, two lengths."""

    def maybe_extract_lines(self) -> Any:
        size = len(self)
        lines = super().maybe_extract_lines()
        if lines is not None and size - len(self) != sum(map(len, lines)) + 2 * len(lines) + 2:
            raise h11.RemoteProtocolError("A line ends without CR.")
        if size - len(self) > _HEAD_BYTES or len(lines or ()) > _HEAD_LINES:
            raise h11.RemoteProtocolError("The head of the request is too large.")
        lengths = [line for line in lines or () if line.lower().startswith(b"content-length")]
        if len(lengths) > 1 or any(b"," in line for line in lengths):
            raise h11.RemoteProtocolError("A body has one Content-Length.")
        if any(line.startswith((b" ", b"\t")) for line in lines or ()):
            raise h11.RemoteProtocolError("A line continues the one before.")
        return lines

    def maybe_extract_next_line(self) -> Any:
        line = super().maybe_extract_next_line()
        if line is not None and not _CHUNK_SIZE.fullmatch(line):
            raise h11.RemoteProtocolError("The line before a chunk is not its size alone.")
        return line


class _Framing(h11.Connection):
    """Counts the chunks of a body."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = _StrictLines()

    @property
    def behind(self) -> int:
        """Bytes that came behind a request which is not answered yet."""
        return len(self._receive_buffer) if self.their_state is h11.DONE else 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._left = _SMALL_CHUNKS
            if event.http_version not in {b"1.0", b"1.1"}:
                raise h11.RemoteProtocolError("The version is neither HTTP/1.0 nor HTTP/1.1.")
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                raise h11.RemoteProtocolError("A body has either Content-Length or Transfer-Encoding.")
        elif isinstance(event, h11.Data):
            self._left += len(event.data) // _CHUNK_BYTES - 1
            if self._left < 0:
                raise h11.RemoteProtocolError("The chunks of the body are too small.")
        return event


class _Reads:
    """Data that a loop's connections have received. Each turn parses some of it: of each address, probes apart."""

    def __init__(self) -> None:
        self._left = 0
        self._turns = False
        self._waiting: dict[tuple[str | None, bool], deque[BoundedConnection]] = {}

    def add(self, connection: "BoundedConnection", data: bytes) -> bool:
        """Whether it may be parsed now. Else ``connection.parse`` is called in one of the next turns."""
        if not self._turns:
            self._turns, self._left = True, _READS_A_TURN
            asyncio.get_running_loop().call_soon(self._turn)
        self._left -= connection.cost
        if self._left >= 0:
            return True
        address = connection.client and connection.client[0]
        self._waiting.setdefault((address, data.startswith(_PROBE_LINES)), deque()).append(connection)
        return False

    def _turn(self) -> None:
        self._turns = bool(self._waiting)
        if self._turns:
            asyncio.get_running_loop().call_soon(self._turn)
        left = _READS_A_TURN
        while self._waiting and left > 0:
            key = next(iter(self._waiting))
            reads = self._waiting.pop(key)
            connection = reads.popleft()
            if reads:
                self._waiting[key] = reads  # behind the other addresses
            left -= connection.cost
            connection.parse()


_reads = WeakKeyDictionary[asyncio.AbstractEventLoop, _Reads]()


class BoundedConnection(H11Protocol):
    """One of a bounded number. It ends when a client sends a body in many tiny chunks, or keeps the server waiting."""

    most = 1_000
    """Open at once. One more ends the one that has waited longest for its client: for a request, for the rest of one,
    or to read the answer. If there is none, only probes are answered on it."""
    of_address = most
    """Likewise of one address."""
    for_probes = 20
    """Connections above all of these, on which only probes are answered."""
    idle_seconds = 30.0
    """A client that is waited for so long, and as long again while it sends a request, is not waited for any more."""
    spare = False
    """Whether it has one of the server's spare files."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = self._framing = _Framing()
        self.answered = 0.0
        self._seen: object = None
        self._unparsed = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP's
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self.answered = self.loop.time()
        self._timer = self.loop.call_later(_SPARE_SECONDS if self.spare else self.idle_seconds, self._look)
        if self.spare or len(self.connections) > min(self.most, self.of_address):
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        waits = bool(self._unparsed)
        self._unparsed += data
        if waits:
            return
        if _reads.setdefault(self.loop, _Reads()).add(self, data):
            self.parse()
        else:
            self.transport.pause_reading()

    @property
    def cost(self) -> int:
        """How many small reads take as long to parse as what has come."""
        return 1 + len(self._unparsed) // _READ_BYTES

    def parse(self) -> None:
        """Parse what has come."""
        data, self._unparsed = self._unparsed, b""
        if self.transport.is_closing():
            return
        if not self.flow.read_paused:
            self.transport.resume_reading()
        super().data_received(data)
        if self._framing.behind > _BEHIND_BYTES:
            self.abort()

    def on_response_complete(self) -> None:
        """Called by uvicorn."""
        self.answered = self.loop.time()
        super().on_response_complete()
        if self.spare:
            self.transport.close()

    @property
    def asked(self) -> bool:
        """Whether an answer is under way, and the client is not waited for."""
        if self._unparsed:  # the server is late, and not the client
            return True
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        return not self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """End it at once."""
        self.connections.discard(self)
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or end the connection if an answer has begun."""
        if self.cycle is not None and (self.cycle.response_started or self.cycle.response_complete):
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _make_room(self) -> None:
        ours: Any = self.connections
        crowd = ours if self.spare or len(ours) > self.most else ()
        if len(ours) > self.most:
            _warn_seldom("More than %d connections are open at an HTTP port: further ones end idle ones.", self.most)
        if not crowd:
            address = self.client and self.client[0]
            crowd = [other for other in ours if (other.client and other.client[0]) == address]
            crowd = crowd if len(crowd) > self.of_address else ()
        waiting = [other for other in crowd if not other.asked and other is not self]
        # several of very many: to look through all of them for each further one would stop the loop
        for longest in nsmallest(max(1, self.most // 100), waiting, key=attrgetter("answered")):
            longest.abort()
        if not waiting and len(ours) > self.most + self.for_probes:
            self.abort()
        if self.spare or (crowd and not waiting):
            self.app = partial(_probes_alone, self.app)

    def _look(self) -> None:
        if not self.asked and self.cycle is self._seen:
            self.abort()
            return
        self._seen = self.cycle
        self._timer = self.loop.call_later(self.idle_seconds, self._look)


async def _probes_alone(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    busy = PlainTextResponse("Too many requests are being answered: try again later.\n", 503, {"connection": "close"})
    await (app if scope["path"] in _PROBES else busy)(scope, receive, send)


class BoundedServer(uvicorn.Server):
    """Accepts connections by itself: uvloop drops those for which there is no file, and asyncio waits for a second.

    It keeps some files, and answers probes with them when the process has no others. Signals are the process's own.
    ``options`` are uvicorn's.
    """

    def __init__(self, app: ASGIApp, connection: type[BoundedConnection], **options: Any) -> None:
        config = uvicorn.Config(
            app,
            http=connection,
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client on this machine could state another address than its own
            **options,
        )
        config.load()  # a certificate that is none is found now
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn."""
        await super().startup([])
        self._spare = list[int]()
        self._arriving = dict[asyncio.Task[None], None]()
        self._shaking = dict[asyncio.Task[None], None]()
        self._turn = asyncio.Lock()
        self._paused = {*(sockets or [])}
        for listening in self._paused:
            listening.settimeout(0)
            listening.listen(self.config.backlog)
        await self.on_tick(1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn."""
        for listening in sockets or []:
            asyncio.get_running_loop().remove_reader(listening)
        await super().shutdown(sockets)
        while self._spare:
            os.close(self._spare.pop())

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        with contextlib.suppress(OSError):  # there is no file, or no further one
            while len(self._spare) < _SPARE_FILES:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))
        while self._paused:
            listening = self._paused.pop()
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)
        return await super().on_tick(counter)

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):  # no further one waits
            for _ in range(_ACCEPTED_AT_ONCE):
                self._accept_next(listening)

    def _accept_next(self, listening: socket.socket) -> None:
        spare = len(self._spare) < _SPARE_FILES  # a file that is free again is one of these
        try:
            connection, _ = listening.accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise BlockingIOError from error  # its client is gone
            _warn_seldom("This process is out of files (ulimit -n): its HTTP ports answer nothing but probes.")
            if not self._spare:
                asyncio.get_running_loop().remove_reader(listening)
                self._paused.add(listening)
                raise BlockingIOError from error
            os.close(self._spare.pop())
            spare = True
            connection, _ = listening.accept()
        connection.settimeout(0)
        protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]  # see uvicorn's own startup
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.spare = spare
        arriving = asyncio.ensure_future(self._arrive(protocol, connection))
        arriving.add_done_callback(self._arrived)
        _enter(self._arriving, arriving, protocol.most)

    def _arrived(self, arriving: asyncio.Task[None]) -> None:
        self._arriving.pop(arriving, None)
        self._shaking.pop(arriving, None)

    async def _arrive(self, protocol: BoundedConnection, connection: socket.socket) -> None:
        """Hand a connection to its protocol, after a TLS handshake if there is one."""
        loop, ssl = asyncio.get_running_loop(), self.config.ssl
        try:
            if ssl is not None:
                await self._begun(connection)
        except (OSError, asyncio.CancelledError):  # its client is gone, is silent, or makes room for another
            connection.close()
            return
        with contextlib.suppress(OSError, asyncio.CancelledError):  # likewise, or it does not speak TLS
            await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=ssl, ssl_handshake_timeout=_HANDSHAKE_SECONDS if ssl else None
            )

    async def _begun(self, connection: socket.socket) -> None:
        """Wait until a handshake may begin: its client has sent something, and no other one begins in this turn."""
        loop, sent = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(connection, sent.set)
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                await sent.wait()
        finally:
            loop.remove_reader(connection)
        async with self._turn:
            await asyncio.sleep(0)
        if (arriving := asyncio.current_task()) is not None:
            _enter(self._shaking, arriving, _HANDSHAKES)


def _enter(waiting: dict[asyncio.Task[None], None], arriving: asyncio.Task[None], most: int) -> None:
    """Note one more that waits; one too many ends the oldest."""
    waiting[arriving] = None
    if len(waiting) > most:
        oldest = next(iter(waiting))
        del waiting[oldest]
        oldest.cancel()


def _warn_seldom(line: str, *given: object) -> None:
    """Log a warning, unless the same one was logged within a minute."""
    now = monotonic()
    if now - _warned_at.get(line, -math.inf) >= _LOG_SECONDS:
        _warned_at[line] = now
        _LOGGER.warning(line, *given)
