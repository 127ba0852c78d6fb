"""Where our own HTTP servers listen, on a thread if need be, and the names by which clients may reach them."""

import logging
import socket
import threading
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Scope

from checkback.answering.advertising import is_wildcard
from checkback.answering.http_connections import BoundedConnection
from checkback.answering.http_server import BoundedServer

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 1
"""For answers under way: what is then left of them is cut off."""
_BACKLOG = 50
"""Connections that wait to be taken, and are taken at once, before any is ended: of 2,048 all would be files first."""


def listening_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A TCP socket that listens there; ``"::"`` means IPv4 as well, where the system can. ``port`` 0: a free one.
    ``shared``: other processes may listen at the same port.

    Connections that come to it answer at once. asyncio sees to that for sockets that it makes itself, and for no
    others: each answer on a connection that stays open would then wait 40 ms for the other side's acknowledgement.

    Raises:
        OSError: the address cannot be listened at.
    """
    if ":" in host:
        both = is_wildcard(host) and socket.has_dualstack_ipv6()
        listening = socket.create_server(
            (host.strip("[]"), port), family=socket.AF_INET6, dualstack_ipv6=both, reuse_port=shared
        )
    else:
        listening = socket.create_server((host, port), reuse_port=shared)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class _Connection(BoundedConnection):
    """Each is a file of a process that has other work."""

    most, of_address = 90, 45


class ServerThread:
    """Serves ``app`` at a socket until :meth:`stop`, on a thread that keeps no process from ending; logs no requests.

    ``name``: the thread's, and what the log says has failed.
    """

    def __init__(self, app: ASGIApp, listening: socket.socket, name: str) -> None:
        quiet = {"loop": "asyncio", "log_config": None, "log_level": "critical"}
        self._server = BoundedServer(
            app, _Connection, backlog=_BACKLOG, timeout_graceful_shutdown=_STOP_SECONDS, **quiet
        )
        self._listening, self._name = listening, name
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the port back, within two seconds."""
        self._server.should_exit = True
        self._thread.join(2 * _STOP_SECONDS)
        self._listening.close()  # it is closed already, unless an answer that takes long has held up everything

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listening])
        except Exception:
            _LOGGER.exception("The HTTP server %s has failed: the program goes on without it.", self._name)
        finally:
            self._listening.close()


class OwnNames:
    """Names of this machine; ``names`` are further host names and addresses by which clients may reach a server.

    A web page can let a name of its own lead to this machine's address (DNS rebinding). Without this check, the page
    could use a visitor's browser to read what the server answers.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        ours = socket.gethostname()
        self._names = frozenset(
            name.strip("[]").rstrip(".").lower() for name in ("localhost", ours, ours.split(".")[0], *names)
        )

    def refused(self, scope: Scope) -> Response | None:
        """The answer to a request whose ``Host`` does not name this machine."""
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) == 1 and self.know(hosts[0], (scope.get("server") or ("",))[0]):
            return None
        return PlainTextResponse("Host has to be a name of this machine, or one of http.names.\n", 421)

    def know(self, host: str, local: str) -> bool:
        """Whether a ``Host`` header names this machine; ``local`` is the address that the connection came to."""
        name = _name_of(host)
        return name in self._names or _is_ours(name, local)


def _name_of(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or not (port.isdigit() or not port) or (":" in name and not name.endswith("]")):
        name = host
    return name.strip("[]").rstrip(".").lower()


def _is_ours(name: str, local: str) -> bool:
    """Whether it is a loopback address, or the one that the connection came to."""
    try:
        address, own = _address(name), _address(local)
    except ValueError:
        return False
    return address.is_loopback or address == own


def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
