"""The HTTP server of the job's port, on a socket that is bound before anything else, and the guard before all pages."""

import errno
import logging
import math
import socket
import time
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkback.answering.advertising import is_wildcard
from checkback.answering.listening import OwnNames, ServerThread, listening_socket
from checkback.exceptions import ConfigurationError
from checkback.wire.printable import printable
from conf.settings import HttpSettings

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 60.0

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class StatusServer:
    """Serves ``app`` at ``http.host`` and ``http.port``, while it is started; it may be started and stopped often."""

    def __init__(self, http: HttpSettings, app: ASGIApp) -> None:
        self._http = http
        self._app = app
        self._running: ServerThread | None = None

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
        self._running = ServerThread(self._app, listening, "status-page-http")
        return True

    def stop(self) -> None:
        """Give the port back, within two seconds. Harmless when nothing is served."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()


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


class Guard:
    """By which names a page may be asked for, what browsers may do with it, and no exception gets out of it.

    ``names``: see :class:`~checkback.answering.listening.OwnNames`.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = OwnNames(names)
        self._log_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refused(scope)
        try:
            await (refused or self._app)(scope, receive, guarded)
        except Exception as error:  # noqa: BLE001  (nobody but the page is to hear of it)
            self._log(scope["path"], error)
            if not begun:
                said = "This page could not be made. The job goes on; its log says what was wrong.\n"
                await PlainTextResponse(said, 500)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1:
            return PlainTextResponse("A request needs one Host header.\n", 400)
        if self._names.know(hosts[0], (scope.get("server") or ("",))[0]):
            return None
        said = f"The status page does not know {printable(hosts[0])!r} as a name of this machine."
        return PlainTextResponse(f"{said} If it is one, add it to http.names, and start the job again.\n", 421)

    def _log(self, path: str, error: Exception) -> None:
        now = time.monotonic()
        if now - self._log_at >= _LOG_SECONDS:
            self._log_at = now
            said = "The page %s could not be made; said at most once a minute."
            _LOGGER.error(said, printable(path), exc_info=error)
