"""A real MariaDB for tests: see :mod:`torture.local_mariadb`."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from checkback.exceptions import InstallationError
from torture.local_mariadb import LocalMariadb


@contextmanager
def installed() -> Iterator[LocalMariadb]:
    """Start a server; skips the test, with the reason, where MariaDB is not installed."""
    try:
        server = LocalMariadb()
    except InstallationError as error:
        pytest.skip(str(error))
    with server:
        yield server
