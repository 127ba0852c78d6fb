"""The HTTP server of the job's port: in a thread, on a socket that is bound before anything else."""

import errno
import logging
import socket
import threading

from starlette.types import ASGIApp

from checkback.answering.advertising import is_wildcard
from checkback.answering.http_connections import BoundedConnection, BoundedServer
from checkback.answering.listening import listening_socket
from checkback.exceptions import ConfigurationError
from conf.settings import HttpSettings

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 1
"""For pages that are being made: what is then left of them is cut off."""
_BACKLOG = 50
"""Connections that wait to be taken, and are taken at once, before any is ended: of 2,048 all would be files first."""


class _Connection(BoundedConnection):
    """Each is a file of the job's own process."""

    most, of_address = 90, 45


class StatusServer:
    """Serves ``app`` at ``http.host`` and ``http.port``, while it is started; it may be started and stopped often.

    Its thread keeps no process from ending. It takes no signals and logs nothing of what is asked.
    """

    def __init__(self, http: HttpSettings, app: ASGIApp) -> None:
        self._http = http
        self._app = app
        self._running: tuple[BoundedServer, threading.Thread, socket.socket] | None = None

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
        server = BoundedServer(
            self._app,
            _Connection,
            loop="asyncio",
            log_config=None,
            log_level="critical",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
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


def _serve(server: BoundedServer, listening: socket.socket) -> None:
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
