"""A real PostgreSQL for tests: see :mod:`torture.local_postgresql`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL

from checkback.exceptions import InstallationError
from torture.local_postgresql import LocalPostgresql


@contextmanager
def running_postgres(port: int | None = None) -> Iterator[URL]:
    """Start a server; skips the test, with the reason, where PostgreSQL is not installed.

    The URL is that of its unix socket, where everybody is trusted. With a port it listens there, too, on this machine
    only, and asks for passwords.
    """
    with installed(port) as server:
        yield server.url


@contextmanager
def installed(port: int | None = None, disk: Path | None = None) -> Iterator[LocalPostgresql]:
    """Likewise, the server itself."""
    try:
        server = LocalPostgresql(port, disk)
    except InstallationError as error:
        pytest.skip(str(error))
    with server:
        yield server
