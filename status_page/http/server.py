"""The HTTP server of the job's port: in a thread, on a socket that is bound before anything else."""

import asyncio
import errno
import logging
import socket
import threading
from functools import partial
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from checkback.answering.advertising import is_wildcard
from checkback.answering.http_connections import BoundedConnection
from checkback.answering.listening import listening_socket
from checkback.exceptions import ConfigurationError
from conf.settings import HttpSettings

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 1
"""For pages that are being made: what is then left of them is cut off."""
_BACKLOG = 50
"""Connections that wait to be taken, and are taken at once, before any is ended: of 2,048 all would be files first."""
_CONNECTIONS = 90
"""Open at once; each is a file of the job's own process. One more ends the one that has waited longest for its client:
for a request, for the rest of one, or to read the answer. If there is none, only probes are answered on it."""
_OF_ADDRESS = 45
"""Likewise of one address."""
_FOR_PROBES = 20
"""Connections above all of these, on which only probes are answered."""
_PROBES = frozenset({"/healthz", "/metrics"})
_IDLE_SECONDS = 30.0
"""A connection without an answer for so long is ended, whether nothing was asked or it is asked byte by byte."""


class _Connection(BoundedConnection):
    """One of a bounded number: whoever only opens connections must not use up the files that the job needs."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timer: asyncio.TimerHandle | None = None
        self.answered = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP's
        super().connection_made(transport)
        self.answered = self.loop.time()
        self._timer = self.loop.call_later(_IDLE_SECONDS, self._look)
        ours = [one for one in self.connections if isinstance(one, _Connection)]
        crowd = [one for one in ours if one.address == self.address]
        if len(crowd) <= _OF_ADDRESS:
            crowd = ours if len(ours) > _CONNECTIONS else []
        waiting = [one for one in crowd if one is not self and not one.asked]
        if waiting:
            min(waiting, key=lambda one: one.answered).abort()
        elif len(ours) > _CONNECTIONS + _FOR_PROBES:
            self.abort()
        elif crowd:
            self.app = partial(_probes_alone, self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.answered = self.loop.time()
        super().on_response_complete()

    @property
    def address(self) -> str:
        """The client's."""
        return self.client[0] if self.client else ""

    @property
    def asked(self) -> bool:
        """Whether an answer is under way, and the client is not waited for."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        return not self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """End it at once."""
        self.connections.discard(self)
        self.transport.abort()

    def _look(self) -> None:
        left = self.answered + _IDLE_SECONDS - self.loop.time()
        if left <= 0:
            self.abort()
        else:
            self._timer = self.loop.call_later(left, self._look)


async def _probes_alone(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    busy = PlainTextResponse("Too many requests are being answered: try again later.\n", 503, {"connection": "close"})
    await (app if scope["path"] in _PROBES else busy)(scope, receive, send)


class StatusServer:
    """Serves ``app`` at ``http.host`` and ``http.port``, while it is started; it may be started and stopped often.

    Its thread keeps no process from ending. It takes no signals and logs nothing of what is asked.
    """

    def __init__(self, http: HttpSettings, app: ASGIApp) -> None:
        self._http = http
        self._app = app
        self._running: tuple[uvicorn.Server, threading.Thread, socket.socket] | None = None

    @property
    def url(self) -> str:
        """Where people find it: ``http://host:port``, with this machine's name where it listens to all; or empty."""
        if not self._http.port:
            return ""
        host = socket.gethostname() if is_wildcard(self._http.host) else self._http.host
        return f"http://[{host}]:{self._http.port}" if ":" in host else f"http://{host}:{self._http.port}"

    def start(self) -> bool:
        """Serve, from now on or already; False when the port is in use. True, too, when ``http.port`` is 0: none.

        Raises:
            ConfigurationError: the port, or the address, cannot be had at all.
        """
        if not self._http.port or self._running is not None:
            return True
        try:
            listening = listening_socket(self._http.host, self._http.port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise _unusable(self._http, error) from error
        config = uvicorn.Config(
            self._app,
            loop="asyncio",
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client on this machine could state another address than its own
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=_serve, args=(server, listening), name="status-page-http", daemon=True)
        self._running = server, thread, listening
        thread.start()
        return True

    def stop(self) -> None:
        """Give the port back, within two seconds. Harmless when nothing is served."""
        running, self._running = self._running, None
        if running is None:
            return
        server, thread, listening = running
        server.should_exit = True
        thread.join(2 * _STOP_SECONDS)
        listening.close()  # it is closed already, unless a page that takes long has held up everything


def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    try:
        server.run(sockets=[listening])
    except Exception:
        _LOGGER.exception("The status page's server has failed: the job goes on without it.")
    finally:
        listening.close()


def _unusable(http: HttpSettings, error: OSError) -> ConfigurationError:
    why = str(error.strerror).partition(" (while ")[0]
    no_such_name = (error.errno or 0) < 0  # what could not be resolved has a number of its own kind
    if no_such_name or error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(
            f"{http.host} (http.host) is not an address of this machine: {why}. Give one that it has, "
            '"127.0.0.1" for this machine alone, or "0.0.0.0" for all.'
        )
    return ConfigurationError(
        f"Port {http.port} (http.port) cannot be used: {why}. Name another one, or 0 for no status page and no metrics."
    )
