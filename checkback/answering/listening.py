"""The sockets at which our own HTTP servers listen, and the names by which clients may reach them."""

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import Scope

from checkback.answering.advertising import is_wildcard


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
