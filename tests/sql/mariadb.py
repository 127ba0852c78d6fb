"""A real MariaDB for tests: see :mod:`torture.local_mariadb`."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from checkback.exceptions import InstallationError
from torture.local_mariadb import LocalMariadb

_Connection: Any = import_module("pymysql.connections").Connection  # it ships no types
_create_context = _Connection._create_ssl_ctx


@functools.cache
def _context() -> Any:
    return _create_context(None, {})


# it reads the machine's certificates again for each connection, which takes longer than all else that most tests do
_Connection._create_ssl_ctx = lambda self, options: _create_context(self, options) if options else _context()


@contextmanager
def installed() -> Iterator[LocalMariadb]:
    """Start a server; skips the test, with the reason, where MariaDB is not installed."""
    try:
        server = LocalMariadb()
    except InstallationError as error:
        pytest.skip(str(error))
    with server:
        yield server
