"""The sockets at which our own HTTP servers listen."""

import socket

import pytest

from checkback.answering.listening import listening_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::", "[::1]"])  # noqa: S104  (for a moment)
def test_a_connection_answers_at_once(host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listening_socket(host, 0) as listening:
        near = "::1" if host == "[::1]" else "127.0.0.1"
        with socket.create_connection((near, listening.getsockname()[1]), 10), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
