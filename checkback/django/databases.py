"""What the transaction log and the inbox need to know of Django's databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import Error, connections

from checkback.exceptions import ConfigurationError

SUPPORTED = ("postgresql", "sqlite")
"""Vendors, as Django names them."""

_POSTGRESQL_LOCK_NOT_AVAILABLE = "55P03"


def connection_of(alias: str) -> Any:
    """The connection of this thread.

    Raises:
        ConfigurationError: there is no such database, or it is one that we do not work in.
    """
    if alias not in connections:
        raise ConfigurationError(f"There is no database {alias!r} in DATABASES; there are {', '.join(connections)}.")
    connection = connections[alias]
    if connection.vendor not in SUPPORTED:
        raise ConfigurationError(
            f"Checkback's tables work on {' and '.join(SUPPORTED)}; database {alias!r} is {connection.vendor}. Keep "
            "them in another one (CHECKBACK['DATABASES'] and the router of docs/django.md), or answer checks yourself."
        )
    return connection


def in_a_test(connection: Any) -> bool:
    """Whether the innermost ``atomic`` is that of Django's TestCase, in which ``durable=True`` is allowed, too."""
    return bool(connection.atomic_blocks) and connection.atomic_blocks[-1]._from_testcase  # noqa: SLF001  (Django's own durable=True asks this, and there is no other way)


def refuse_inside(connection: Any, what: str, why: str) -> None:
    """Refuse what must commit by itself where it could not.

    Raises:
        ConfigurationError: somebody else's ``atomic`` is around it, or the connection does not commit by itself.
    """
    alias = connection.alias
    if connection.in_atomic_block and not in_a_test(connection):
        raise ConfigurationError(
            f"{what} is inside a transaction.atomic() of database {alias!r}: {why} Take the outer atomic away, "
            f"{what} opens its own. Where it comes from ATOMIC_REQUESTS, put @transaction.non_atomic_requests "
            "(django.db) on the view."
        )
    if not connection.in_atomic_block and not connection.get_autocommit():
        raise ConfigurationError(
            f"Database {alias!r} is out of Django's autocommit mode, so transaction.atomic() commits nothing: {why} "
            f"Leave AUTOCOMMIT in DATABASES at True, and call set_autocommit(True) before {what}."
        )


def table_of(connection: Any, name: str) -> str:
    """A table's name, quoted."""
    return str(connection.ops.quote_name(name))


def moment(connection: Any, when: datetime) -> Any:
    """A time as it is stored in a column, by SQLAlchemy as well, whatever USE_TZ and TIME_ZONE are."""
    if connection.vendor == "sqlite":
        return when.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return when


def of_moment(stored: Any) -> datetime:
    """The other way: SQLite has no time zones, and what comes back depends on who made the table."""
    found = datetime.fromisoformat(str(stored))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@contextmanager
def busy_timeout(connection: Any, milliseconds: int) -> Iterator[None]:
    """SQLite's own lock time-out; the connection has the one it had before, afterwards."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        ((before,),) = cursor.fetchall()
        cursor.execute(f"PRAGMA busy_timeout = {milliseconds:d}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {before:d}")


def is_lock_timeout(error: Error) -> bool:
    """Whether a lock was waited for in vain, in the words of psycopg, psycopg2 and sqlite3."""
    driver = error.__cause__
    sqlstate = getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)
    primary = getattr(driver, "sqlite_errorcode", 0) & 0xFF  # the rest says why it was busy
    return sqlstate == _POSTGRESQL_LOCK_NOT_AVAILABLE or primary == sqlite3.SQLITE_BUSY
