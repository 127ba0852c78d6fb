"""What MySQL and MariaDB want otherwise than PostgreSQL and SQLite. Needs the extra ``sql``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Delete, Table, bindparam, text
from sqlalchemy.exc import IntegrityError

from checkback.dbapi.states import (
    LOCK_TIMEOUTS,
    MYSQL_ENGINE_AND_KEY,
    limited_to,
    mysql_code,
    refuse_unsafe,
    set_lock_timeouts,
)

NAMES = ("mysql", "mariadb")
"""As SQLAlchemy has them, by the URL and not by the server: ``mysql`` reaches either, ``mariadb`` MariaDB only."""
TABLE_OPTIONS: dict[str, Any] = {
    f"{name}_{option}": value for name in NAMES for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"))
}

_IN_TRANSACTION = 1  # SERVER_STATUS_IN_TRANS
_DUPLICATE = 1062
_ENGINE_AND_KEY = text(MYSQL_ENGINE_AND_KEY.format(":name"))


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], key: Column[str]) -> set[str]:
    """Insert those rows that are not there; gives their keys. Waits for running transactions that have inserted one.

    A plain insert, at whose failure InnoDB undoes the one statement. ON DUPLICATE KEY UPDATE does not say what it did:
    SQLAlchemy asks for the rows that were found, not for those that were changed. IGNORE passes over other errors, too.
    """
    try:
        connection.execute(table.insert().values(list(rows)))
    except IntegrityError as error:
        if mysql_code(error.orig) != _DUPLICATE:
            raise
    else:
        return {row[key.name] for row in rows}
    if len(rows) == 1:
        return set()
    return {row[key.name] for row in rows if insert_new(connection, table, [row], key)}


def delete_each(connection: Connection, statement: Delete, key: Column[str], found: Sequence[str]) -> None:
    """Delete rows key by key, one round trip each: an IN may scan the table, and waits for what others have locked."""
    if found:
        connection.execute(statement.where(key == bindparam("found")), [{"found": one} for one in found])


def refuse_unsafe_table(connection: Connection, table: Table) -> bool:
    """Make sure that a row goes with its transaction, and that only the same key is the same; False: no table yet.

    Raises:
        ConfigurationError: the table is another engine's than InnoDB's, or its key is text.
    """
    found = connection.execute(_ENGINE_AND_KEY, {"name": table.name}).all()
    refuse_unsafe(table.name, found)
    return bool(found)


def is_in_autocommit_mode(drivers: Sequence[Any]) -> bool:
    """Whether a statement now is committed by itself. The drivers keep what the server has said last."""
    by_itself = any(driver.get_autocommit() for driver in drivers if hasattr(driver, "get_autocommit"))
    begun = any(getattr(driver, "server_status", 0) & _IN_TRANSACTION for driver in drivers)  # by a BEGIN
    return by_itself and not begun


@contextmanager
def lock_timeout(connection: Connection, milliseconds: int) -> Iterator[None]:
    """A time limit for locks of rows and of tables, of a connection that goes back to the pool with those it had."""
    before = connection.exec_driver_sql(LOCK_TIMEOUTS).one()
    connection.exec_driver_sql(set_lock_timeouts(limited_to(milliseconds)))
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql(set_lock_timeouts(before))
