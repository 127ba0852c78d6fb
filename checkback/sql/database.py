"""What the transaction log and the inbox need to know of the databases they work in. Needs the extra ``sql``."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table
from sqlalchemy.dialects import postgresql, sqlite

from checkback.exceptions import ConfigurationError
from checkback.sql import mysql

# ON CONFLICT DO NOTHING: a plain insert that fails would end PostgreSQL's transaction before we could look why, and
# a savepoint around it would be the outermost one under pysqlite, whose release commits.
_INSERTS: dict[str, Callable[[Table], postgresql.Insert | sqlite.Insert]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}
DATABASES = (*_INSERTS, *mysql.NAMES)
"""Those we work in."""


def refuse_others(name: str, what: str, instead: str) -> None:
    """Raise ConfigurationError for a database in which ``what`` does not work."""
    if name not in DATABASES:
        known = f"{', '.join(DATABASES[:-1])} and {DATABASES[-1]}"
        raise ConfigurationError(f"The {what} works on {known}, not on {name}: {instead}")


def insert_new(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], key: Column[str]) -> set[str]:
    """Insert those rows that are not there; gives their keys. Waits for running transactions that have inserted one."""
    name = connection.dialect.name
    if name in mysql.NAMES:
        return mysql.insert_new(connection, table, rows, key)
    insert = _INSERTS[name](table).values(list(rows)).on_conflict_do_nothing()
    # RETURNING and no rowcount: SQLAlchemy does not keep that of an insert
    return set(connection.scalars(insert.returning(key)))


def refuse_autocommit(connection: Connection, what: str) -> None:
    """Make sure that a row written now is committed, or not, with all else of the caller's database transaction.

    ``what`` the row would not belong to, for the message.

    Raises:
        ConfigurationError: the connection commits each statement by itself.
    """
    if not connection.in_transaction():
        connection.begin()  # as the insert would: where BEGIN is sent by an event, the driver knows only then
    # the driver's own, and what SQLAlchemy puts around one of asyncio's
    drivers = (connection.connection.driver_connection, connection.connection.dbapi_connection)
    autocommit = any(getattr(driver, "autocommit", False) is True for driver in drivers)  # sqlite3 has -1 by default
    if connection.dialect.name in mysql.NAMES:
        autocommit = autocommit or mysql.is_in_autocommit_mode(drivers)
    if connection.dialect.name == "sqlite":
        by_itself = autocommit or getattr(drivers[0], "isolation_level", "") is None
        autocommit = by_itself and not getattr(drivers[0], "in_transaction", True)
    if autocommit:
        raise ConfigurationError(
            f"This connection is in autocommit mode, so the record would not belong to {what}: open a database "
            "transaction."
        )


def refuse_another_schema(connection: Connection, engine: Engine, table: Table) -> None:
    """Make sure that a connection writes to the table that checks read.

    Raises:
        ConfigurationError: the one has a ``schema_translate_map`` that the other has not.
    """
    maps = [one.get_execution_options().get("schema_translate_map") or {} for one in (connection, engine)]
    schemas = [schema_of.get(None) or connection.dialect.default_schema_name for schema_of in maps]
    if schemas[0] != schemas[1]:
        raise ConfigurationError(
            f"By its schema_translate_map this connection has the table {table.name} in schema {schemas[0]!r}, and the "
            f"engine that answers checks in {schemas[1]!r}: what is committed here would be answered 'rollback'. Make "
            "a log for each schema, with engine.execution_options(schema_translate_map=...)."
        )
