"""What the transaction log and the inbox need to know of Django's databases."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from django.db import connections

from checkback.dbapi.databases import DIALECTS, Dialect, execute, fetched
from checkback.dbapi.states import LOCK_TIMEOUTS, limited_to, set_lock_timeouts
from checkback.exceptions import ConfigurationError

_DIALECTS = {
    "postgresql": DIALECTS["psycopg"],
    "mysql": DIALECTS["pymysql"],
    "sqlite": replace(DIALECTS["sqlite3"], placeholder="%s"),
}
"""By the vendor, as Django names it: ``mysql`` is MariaDB's, too."""


def connection_of(alias: str) -> Any:
    """The connection of this thread.

    Raises:
        ConfigurationError: there is no such database, or it is one that we do not work in.
    """
    if alias not in connections:
        raise ConfigurationError(f"There is no database {alias!r} in DATABASES; there are {', '.join(connections)}.")
    connection = connections[alias]
    if connection.vendor not in _DIALECTS:
        raise ConfigurationError(
            f"Checkback's tables work on {', '.join(_DIALECTS)}; database {alias!r} is {connection.vendor}. Keep "
            "them in another one (CHECKBACK['DATABASES'] and the router of docs/django.md), or answer checks yourself."
        )
    return connection


def dialect_of(connection: Any) -> Dialect:
    """The words of its database. Its statements are run by Django, whatever the driver."""
    return _DIALECTS[connection.vendor]


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


def limited_waiting(connection: Any, milliseconds: int) -> AbstractContextManager[None]:
    """Around a transaction of our own: it waits for locks no longer; the connection is as before, afterwards."""
    return _LIMITS[connection.vendor](connection, milliseconds)


def begin_to_look(connection: Any, milliseconds: int) -> None:
    """First in that transaction. Whatever OPTIONS say: after a wait, a look must see what was committed meanwhile."""
    if connection.vendor != "sqlite":
        execute(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    if connection.vendor == "postgresql":
        execute(connection, f"SET LOCAL lock_timeout = {milliseconds:d}")


@contextmanager
def _busy_timeout(connection: Any, milliseconds: int) -> Iterator[None]:
    ((before,),) = fetched(connection, "PRAGMA busy_timeout")
    fetched(connection, f"PRAGMA busy_timeout = {milliseconds:d}")
    try:
        yield
    finally:
        fetched(connection, f"PRAGMA busy_timeout = {before:d}")


@contextmanager
def _lock_timeouts(connection: Any, milliseconds: int) -> Iterator[None]:
    (before,) = fetched(connection, LOCK_TIMEOUTS)
    execute(connection, set_lock_timeouts(limited_to(milliseconds)))
    try:
        yield
    finally:
        execute(connection, set_lock_timeouts(before))


@contextmanager
def _nothing(_connection: Any, _milliseconds: int) -> Iterator[None]:
    yield  # PostgreSQL has limits of a transaction


_LIMITS = {"sqlite": _busy_timeout, "mysql": _lock_timeouts, "postgresql": _nothing}
