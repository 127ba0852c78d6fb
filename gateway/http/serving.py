"""Serves an ASGI application on the loop that runs, which keeps its own signals."""

import asyncio
import resource

from starlette.types import ASGIApp

from checkback.answering.http_connections import BoundedConnection, BoundedServer
from checkback.answering.listening import listening_socket

_STOP_SECONDS = 3


class _GatewayConnection(BoundedConnection):
    most = of_address = min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1_024) // 5, 3_000)


MOST_CONNECTIONS = _GatewayConnection.most
"""Of each of four ports: a process without files could not answer its probes. One address may be a proxy's."""


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
        self._server = BoundedServer(
            app,
            _GatewayConnection,
            log_level="warning",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
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
