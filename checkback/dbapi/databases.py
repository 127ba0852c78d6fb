"""What the transaction log needs to know of psycopg, PyMySQL and sqlite3, and of the databases behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol

from checkback.dbapi.states import MYSQL_ENGINE_AND_KEY, limited_to, mysql_code, refuse_unsafe, set_lock_timeouts
from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import MAX_ID_BYTES

_IN_TRANSACTION = 1  # MySQL's SERVER_STATUS_IN_TRANS
_IDLE = 0  # libpq's PQTRANS_IDLE
_DUPLICATE = 1062


class DbapiConnection(Protocol):
    """A connection of PEP 249, as far as it is used here."""

    def cursor(self) -> Any:
        """Its statements."""

    def commit(self) -> None:
        """Commit."""

    def rollback(self) -> None:
        """Roll back."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Dialect:
    """A driver, with the words of its database."""

    placeholder: str
    quote: str
    table_end: str
    """Of CREATE TABLE."""
    text: str
    """The type of a key, without its length."""
    moment: str
    insert_end: str
    """Passes over a row that is there; on MySQL the error does, at which InnoDB undoes the one statement."""
    newest: str = ""
    """After a SELECT: by what is committed, not by the transaction's snapshot."""

    def named(self, table: str) -> str:
        """A table's name, quoted."""
        return self.quote + table.replace(self.quote, self.quote * 2) + self.quote

    def ddl(self, table: str) -> str:
        """The statement that makes the log, as ``SqlTransactionLog`` makes it."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.named(table)} (transaction_id {self.text}({MAX_ID_BYTES}) NOT NULL, "
            f"state VARCHAR(9) NOT NULL, recorded_at {self.moment} NOT NULL, PRIMARY KEY (transaction_id))"
            f"{self.table_end}"
        )

    def stored_text(self, text: str, max_bytes: int = MAX_ID_BYTES) -> Any:
        """As a key has it.

        Raises:
            ValueError: it is too long: a MySQL without strict mode would cut it, to another's.
        """
        encoded = text.encode()
        if len(encoded) > max_bytes:
            raise ValueError(f"{text!r:.80} has {len(encoded)} bytes; the column takes {max_bytes}.")
        return text

    def stored_moment(self, when: datetime) -> Any:
        """As the column has it, given UTC."""
        return when

    def begin(self, connection: Any) -> None:
        """Begin a transaction now, where the connection would not do so with the next statement."""
        if self.in_autocommit_mode(connection):
            execute(connection, "BEGIN")

    def limit_waiting(self, connection: Any, milliseconds: int) -> None:
        """A time limit for locks, of a transaction that is about to begin."""

    def in_autocommit_mode(self, connection: Any) -> bool:
        """Whether a statement now is committed by itself."""
        raise NotImplementedError

    def in_transaction(self, connection: Any) -> bool:
        """Whether one has begun."""
        raise NotImplementedError

    def is_duplicate(self, error: Exception) -> bool:  # noqa: ARG002  (MySQL's looks at it)
        """Whether an insert found its row there."""
        return False

    def refuse_unsafe_table(self, connection: Any, table: str) -> bool:  # noqa: ARG002  (likewise)
        """See :func:`checkback.dbapi.states.refuse_unsafe`; False: there is no table yet."""
        return True


class _Postgresql(Dialect):
    def in_autocommit_mode(self, connection: Any) -> bool:
        return bool(connection.autocommit) and not self.in_transaction(connection)

    def in_transaction(self, connection: Any) -> bool:
        return bool(connection.info.transaction_status != _IDLE)

    def limit_waiting(self, connection: Any, milliseconds: int) -> None:
        # Whatever the connection's level: after the wait, the look must see what was committed meanwhile.
        self.begin(connection)
        execute(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        execute(connection, f"SET LOCAL lock_timeout = {milliseconds:d}")


class _Sqlite(Dialect):
    def stored_moment(self, when: datetime) -> Any:
        return when.replace(tzinfo=None).isoformat(" ", "microseconds")

    def in_autocommit_mode(self, connection: Any) -> bool:
        by_itself = connection.isolation_level is None or getattr(connection, "autocommit", False) is True
        return by_itself and not connection.in_transaction

    def in_transaction(self, connection: Any) -> bool:
        always = getattr(connection, "autocommit", None) is False  # of Python 3.12: it has begun the next one already
        return bool(connection.in_transaction) and not always

    def limit_waiting(self, connection: Any, milliseconds: int) -> None:
        execute(connection, f"PRAGMA busy_timeout = {milliseconds:d}")
        self.begin(connection)


class _Mysql(Dialect):
    def stored_text(self, text: str, max_bytes: int = MAX_ID_BYTES) -> Any:
        return super().stored_text(text, max_bytes).encode()

    def stored_moment(self, when: datetime) -> Any:
        return when.replace(tzinfo=None)

    def in_autocommit_mode(self, connection: Any) -> bool:
        return bool(connection.get_autocommit()) and not self.in_transaction(connection)

    def in_transaction(self, connection: Any) -> bool:
        return bool(connection.server_status & _IN_TRANSACTION)

    def limit_waiting(self, connection: Any, milliseconds: int) -> None:
        execute(connection, set_lock_timeouts(limited_to(milliseconds)))
        execute(connection, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.begin(connection)

    def is_duplicate(self, error: Exception) -> bool:
        return bool(mysql_code(error) == _DUPLICATE)

    def refuse_unsafe_table(self, connection: Any, table: str) -> bool:
        found = fetched(connection, MYSQL_ENGINE_AND_KEY.format("%s"), [table])
        refuse_unsafe(table, found)
        return bool(found)


_PASSES_OVER = " ON CONFLICT DO NOTHING"
DIALECTS = {
    "psycopg": _Postgresql("%s", '"', "", "VARCHAR", "TIMESTAMP WITH TIME ZONE", _PASSES_OVER),
    "sqlite3": _Sqlite("?", '"', "", "VARCHAR", "DATETIME", _PASSES_OVER),
    "pymysql": _Mysql(
        *("%s", "`", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4", "VARBINARY", "DATETIME(6)", ""),
        newest=" LOCK IN SHARE MODE",
    ),
}
"""By the driver's module."""


def dialect_of(connection: Any) -> Dialect:
    """The driver's, known by the connection's class or one that it is made of.

    Raises:
        ConfigurationError: it is another one.
    """
    if driver := _driver_of(connection):
        return DIALECTS[driver]
    raise ConfigurationError(
        f"The transaction log works on connections of {', '.join(DIALECTS)}, not on {type(connection).__module__}."
        f"{type(connection).__name__}: take one of these, or SqlTransactionLog with SQLAlchemy."
    )


def _driver_of(connection: Any) -> str:
    """The module of its driver; empty: another one, or Django."""
    modules = (one.__module__.partition(".")[0] for one in type(connection).__mro__)
    return next((module for module in modules if module in DIALECTS), "")


def _cursor(connection: Any) -> Any:
    """A plain cursor with rows as tuples; the connection may make others for the application's own queries."""
    driver = _driver_of(connection)
    if driver == "psycopg":
        from psycopg import Cursor, rows  # noqa: PLC0415  (only who has it needs it)

        return Cursor(connection, row_factory=rows.tuple_row)
    if driver == "pymysql":
        return connection.cursor(import_module("pymysql.cursors").Cursor)
    cursor = connection.cursor()
    if driver == "sqlite3":
        cursor.row_factory = None
    return cursor


def execute(connection: Any, statement: str, values: Sequence[Any] = ()) -> int:
    """Run it; gives how many rows it has written."""
    cursor = _cursor(connection)
    try:
        cursor.execute(statement, values)
        return int(cursor.rowcount)
    finally:
        cursor.close()


def execute_each(connection: Any, statement: str, rows: Sequence[Sequence[Any]]) -> int:
    """Run it once for each of at least one row of values; gives how many rows it has written in all."""
    cursor = _cursor(connection)
    try:
        cursor.executemany(statement, rows)
        return int(cursor.rowcount)
    finally:
        cursor.close()


def fetched(connection: Any, statement: str, values: Sequence[Any] = ()) -> list[list[Any]]:
    """Run it; gives the rows."""
    cursor = _cursor(connection)
    try:
        cursor.execute(statement, values)
        return [list(row) for row in cursor.fetchall()]
    finally:
        cursor.close()


def exists(connection: Any, statement: str, values: Sequence[Any]) -> bool:
    """Whether it finds a row."""
    cursor = _cursor(connection)
    try:
        cursor.execute(statement, values)
        return cursor.fetchone() is not None
    finally:
        cursor.close()
