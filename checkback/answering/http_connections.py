"""Connections of our own HTTP servers: bounds of their number, and turns in which the loop parses what they send."""

import asyncio
import logging
import math
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import nsmallest
from ipaddress import ip_address
from operator import attrgetter
from time import monotonic
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from checkback.answering.http_framing import Framing

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 60.0
_warned_at: dict[str, float] = {}
_PROBES = frozenset({"/healthz", "/live", "/ready", "/metrics"})
_PROBE_LINES = tuple(f"GET {path} ".encode() for path in _PROBES)
_TURN_SECONDS = 0.01
"""In which a loop parses requests before it does other things; as long again for probes. 3,000 requests in one turn
stopped it for 4.6 s."""
SPARE_SECONDS = 2
"""For a request on one of the spare files, and for its answer."""
_PROBES_OF_ONE = 2
_BEHIND_BYTES = 16 * 1024
"""That a client may send behind a request before it has the answer: 3,000 long polls held 484 MiB."""


class _InTurn(Protocol):
    network: str

    @property
    def is_probe(self) -> bool: ...

    def parse(self) -> None: ...


class Turns:
    """Turns of a loop, in which connections parse what they have received: probes first, and each address in turn."""

    def __init__(self) -> None:
        self._ends = 0.0
        self._turning = False
        self._probes: dict[str, deque[_InTurn]] = {}
        self._others: dict[str, deque[_InTurn]] = {}

    def admit(self, connection: "_InTurn") -> bool:
        """Whether it may parse now. Else ``connection.parse`` is called in one of the next turns."""
        if not self._turning:
            self._turning, self._ends = True, monotonic() + _TURN_SECONDS
            asyncio.get_running_loop().call_soon(self._turn)
        elif self._others or self._probes or monotonic() >= self._ends:
            waiting = self._probes if connection.is_probe else self._others
            waiting.setdefault(connection.network, deque()).append(connection)
            return False
        return True

    def _turn(self) -> None:
        self._turning = bool(self._others or self._probes)
        if self._turning:
            asyncio.get_running_loop().call_soon(self._turn)
        for waiting in (self._probes, self._others):
            self._ends = monotonic() + _TURN_SECONDS
            while waiting:
                network = next(iter(waiting))
                connections = waiting.pop(network)
                connection = connections.popleft()
                if connections:
                    waiting[network] = connections  # behind the other networks
                connection.parse()
                if monotonic() >= self._ends:
                    break


_turns = WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]()


class BoundedConnection(H11Protocol):
    """One of a bounded number. It ends when a client sends a body in many tiny chunks, or keeps the server waiting."""

    most = 1_000
    """Open at once. One more ends the one that has waited longest for its client: for a request, for the rest of one,
    or to read the answer. If there is none, only probes are answered on it."""
    of_address = most
    """Likewise of one address."""
    for_probes = 20
    """Further connections, on which only probes are answered. An address above its share has two of them."""
    idle_seconds = 30.0
    """A client that is waited for so long, and as long again while it sends a request, is not waited for any more."""
    spare = False
    """Whether it has one of the server's spare files."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = self._framing = Framing()
        self.answered = 0.0
        self._seen: object = None
        self._waits = False
        self.network = ""
        """The client's address, or the network of an IPv6 address, which is one client's."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP's
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self.answered = self.loop.time()
        self.network = network_of(str(self.client[0]) if self.client else "")
        self._timer = self.loop.call_later(SPARE_SECONDS if self.spare else self.idle_seconds, self._look)
        if self.spare or len(self.connections) > min(self.most, self.of_address):
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_probe(self) -> bool:
        """Whether the next request asks how this process is."""
        return self._framing.begins_with(_PROBE_LINES)

    def handle_events(self) -> None:
        """Called by uvicorn when data has come, and after an answer if another request is there already."""
        if self._waits:
            return
        if _turns.setdefault(self.loop, Turns()).admit(self):
            self.parse()
        else:
            self._waits = True
            self._unset_keepalive_if_required()
            self.transport.pause_reading()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: any client can ask for an upgrade, and uvicorn's advice is for WebSockets."""

    def parse(self) -> None:
        """Parse what has come."""
        self._waits = False
        if self.transport.is_closing():
            return
        if not self.flow.read_paused:
            self.transport.resume_reading()
        super().handle_events()
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
        if self._waits:  # the server is late, and not the client
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
        most = self.most + self.for_probes
        if len(ours) > self.most:
            warn_seldom("More than %d connections are open at an HTTP port: further ones end idle ones.", self.most)
        if not crowd:
            crowd = [other for other in ours if other.network == self.network]
            crowd, most = (crowd, self.of_address + _PROBES_OF_ONE) if len(crowd) > self.of_address else ((), most)
        waiting = [other for other in crowd if not other.asked and other is not self]
        # several of very many: to look through all of them for each further one would stop the loop
        for longest in nsmallest(max(1, self.most // 100), waiting, key=attrgetter("answered")):
            longest.abort()
        if not waiting and len(crowd or ours) > most:
            self.abort()
        if self.spare or (crowd and not waiting):
            self.app = partial(_probes_alone, self.app)

    def _look(self) -> None:
        if not self.asked and self.cycle is self._seen:
            self.abort()
            return
        self._seen = self.cycle
        self._timer = self.loop.call_later(self.idle_seconds, self._look)


class TlsConnection(SSLProtocol):
    """Decrypts in turns of the loop: uvloop's own let 300 connections with records of one byte stop it for 2.9 s.

    Reads are small, because the time of one has no bound, and each connection keeps room for one.
    """

    max_size = 32 << 10
    """Bytes of a read."""
    is_probe = False
    """That is not known before they are decrypted."""
    _received = 0
    _raw: asyncio.Transport
    _ssl_reading_paused: bool
    _set_read_buffer_limits: Callable[[int], None]

    def connection_made(self, transport: Any) -> None:
        """See :class:`asyncio.Protocol`."""
        self._raw = transport
        client = transport.get_extra_info("peername")
        self.network = network_of(str(client[0]) if client else "")
        self._set_read_buffer_limits(self.max_size)
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """See :class:`asyncio.BufferedProtocol`."""
        self._received = nbytes
        if _turns.setdefault(self._loop, Turns()).admit(self):
            self.parse()
        else:
            self._raw.pause_reading()

    def parse(self) -> None:
        """Decrypt what has come."""
        if self._raw.is_closing():
            return
        if not self._ssl_reading_paused:
            self._raw.resume_reading()
        super().buffer_updated(self._received)


async def _probes_alone(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    busy = PlainTextResponse("Too many requests are being answered: try again later.\n", 503, {"connection": "close"})
    await (app if scope["path"] in _PROBES else busy)(scope, receive, send)


def network_of(address: str) -> str:
    """The network of an IPv6 address, which is one client's; else the address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return address if parsed.version == 4 or parsed.ipv4_mapped else parsed.exploded[:19]


def warn_seldom(line: str, *arguments: object) -> None:
    """Log a warning, unless the same one was logged within a minute."""
    now = monotonic()
    if now - _warned_at.get(line, -math.inf) >= _LOG_SECONDS:
        _warned_at[line] = now
        _LOGGER.warning(line, *arguments)
