"""Our own HTTP server: it accepts connections by itself, and answers probes without free files."""

import asyncio
import contextlib
import errno
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from checkback.answering.http_connections import (
    SPARE_SECONDS,
    BoundedConnection,
    TlsConnection,
    network_of,
    warn_seldom,
)

_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_ACCEPTED_AT_ONCE = 20
_HANDSHAKE_SECONDS = 10
_SPARE_FILES = 16
_FEW_SPARE_FILES = 4


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
        self._arriving = dict[asyncio.Task[None], tuple[str, bool]]()
        """The network of each, and whether it has a spare file."""
        self._paused = {*(sockets or [])}
        for listening in self._paused:
            listening.settimeout(0)
            listening.listen(self.config.backlog)
        await self.on_tick(1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn."""
        for listening in sockets or []:
            asyncio.get_running_loop().remove_reader(listening)
        for arriving in tuple(self._arriving):
            arriving.cancel()
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
            connection, address = listening.accept()
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise BlockingIOError from error  # its client is gone
            warn_seldom("This process is out of files (ulimit -n): its HTTP ports answer nothing but probes.")
            if not self._spare:
                asyncio.get_running_loop().remove_reader(listening)
                self._paused.add(listening)
                raise BlockingIOError from error
            os.close(self._spare.pop())
            spare = True
            connection, address = listening.accept()
        connection.settimeout(0)
        protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]  # see uvicorn's own startup
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.spare = spare
        arriving = asyncio.ensure_future(self._arrive(protocol, connection))
        arriving.add_done_callback(self._arrived)
        self._enter(arriving, protocol, network_of(str(address[0])))

    def _arrived(self, arriving: asyncio.Task[None]) -> None:
        self._arriving.pop(arriving, None)

    async def _arrive(self, protocol: BoundedConnection, connection: socket.socket) -> None:
        """Hand a connection to its protocol, after a TLS handshake if there is one."""
        loop, context, shaken = asyncio.get_running_loop(), self.config.ssl, None
        first: Any = protocol
        if context is not None:
            shaken = loop.create_future()
            seconds = SPARE_SECONDS if protocol.spare else _HANDSHAKE_SECONDS
            first = TlsConnection(loop, protocol, context, shaken, ssl_handshake_timeout=seconds, server_side=True)
        with contextlib.suppress(OSError):  # its client is gone, is silent, or does not speak TLS
            transport, _ = await loop.connect_accepted_socket(lambda: first, connection)
            try:
                await (shaken or asyncio.sleep(0))
            except asyncio.CancelledError:  # it makes room for another
                transport.abort()

    def _enter(self, arriving: asyncio.Task[None], protocol: BoundedConnection, network: str) -> None:
        """Note one more that arrives. One too many ends the oldest of the network that has most of them."""
        self._arriving[arriving] = network, protocol.spare
        if len(self._arriving) > protocol.most:
            crowded = Counter(network for network, _ in self._arriving.values()).most_common(1)[0][0]
            self._end_arriving(lambda network, _: network == crowded)
        if protocol.spare and len(self._spare) < _FEW_SPARE_FILES:
            self._end_arriving(lambda _, spare: spare)

    def _end_arriving(self, chosen: Callable[[str, bool], bool]) -> None:
        oldest = next(task for task, (network, spare) in self._arriving.items() if chosen(network, spare))
        del self._arriving[oldest]
        oldest.cancel()
