"""Fixtures of several files here."""

import socket
from collections.abc import Iterator

import pytest

from tests.checkers.service.scene import (
    SECONDS,
)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        server.settimeout(SECONDS)
        yield server
