"""Fixtures of several files here."""

import socket
from collections.abc import Iterator

import pytest

from checkback.answering.app import check_app
from tests.checkers.service.scene import (
    SECONDS,
)


@pytest.fixture(autouse=True)
def patient_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no unknown outcome: after 2 s, endpoints leave the rest of a batch of checks unanswered."""
    monkeypatch.setattr(check_app, "__kwdefaults__", {**(check_app.__kwdefaults__ or {}), "batch_ms": 600_000})


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        server.settimeout(SECONDS)
        yield server
