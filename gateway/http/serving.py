"""Serves an ASGI application on the loop that runs, which keeps its own signals."""

import asyncio
import contextlib
import logging
import math
import resource
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from checkback.answering.http_connections import BoundedConnection
from checkback.answering.listening import listening_socket

_STOP_SECONDS = 3
_HEAD_SECONDS = 10.0
MOST_CONNECTIONS = min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1_024) // 5, 3_000)
"""Of each of four ports: a process without files could not answer its probes."""
_LOG_SECONDS = 60.0
_LOGGER = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own."""
        yield


class _Prompt(BoundedConnection):
    """Closes a connection whose next request does not come to the end of its headers in time; uvicorn waits.

    Of too many connections it closes the one that has waited longest for its client.
    """

    _log_at = -math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self._seen: object = None
        self._looking = self.loop.call_later(_HEAD_SECONDS, self._look)
        self.since = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._looking.cancel()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, _Prompt) and one is not self]
        waiting = [one for one in others if one.cycle is None or one.cycle.response_complete or one.cycle.more_body]
        ended = min(waiting, key=lambda one: one.since, default=self)
        self.connections.discard(ended)
        ended.transport.abort()
        if self.loop.time() - _Prompt._log_at >= _LOG_SECONDS:
            _Prompt._log_at = self.loop.time()
            _LOGGER.warning(
                "More than %d connections are open at an HTTP port, a fifth of this process's files (ulimit -n): each "
                "further one ends the one that has waited longest for its client.",
                MOST_CONNECTIONS,
            )

    def _look(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is self._seen:
            self.transport.close()
            return
        self._seen = self.cycle
        self._looking = self.loop.call_later(_HEAD_SECONDS, self._look)


class HttpServer:
    """Serves until :meth:`stop`. ``shared``: other processes listen at the same port.

    Raises:
        OSError: the address cannot be listened at, or the certificate is none.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, tls: tuple[str, str] | None = None, *, shared: bool = False
    ) -> None:
        self._socket = listening_socket(host, port, shared=shared)
        self.host, self.port = self._socket.getsockname()[:2]
        certificate, key = tls or (None, None)
        config = uvicorn.Config(
            app,
            http=_Prompt,
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            ws="none",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        config.load()  # a certificate that is none is found now
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on."""
        self._serving = asyncio.ensure_future(self._server.serve([self._socket]))

    async def stop(self) -> None:
        """Answer what is under way, for at most three seconds, and end."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._socket.close()
