"""The sockets at which our own HTTP servers listen."""

import socket

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
