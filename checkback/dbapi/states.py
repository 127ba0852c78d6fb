"""The rules of transaction log and inbox, whoever speaks to the database: SQLAlchemy, Django or a plain driver."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    DuplicateTransactionError,
    RecordLostError,
    TransactionBlockedError,
)
from checkback.listener import LocalTransactionState
from checkback.wire.protocol import MAX_GROUP_BYTES

COMMITTED = "committed"
"""In the column *state*: the transaction has committed."""
BLOCKED = "blocked"
"""In the column *state*: a check came before the commit, which can no longer be."""
ANSWERS = {
    COMMITTED: LocalTransactionState.COMMIT,
    BLOCKED: LocalTransactionState.ROLLBACK,
    None: LocalTransactionState.UNKNOWN,  # pruned in between
}

MYSQL_ENGINE_AND_KEY = (
    "SELECT tables.engine, CAST(columns.data_type AS CHAR) FROM information_schema.tables AS tables "
    "JOIN information_schema.columns AS columns USING (table_schema, table_name) "
    "WHERE table_schema = DATABASE() AND table_name = {} AND columns.column_key = 'PRI'"
)
"""With a driver's placeholder for the table's name; see :func:`refuse_unsafe`."""

_POSTGRESQL_LOCK_NOT_AVAILABLE = "55P03"
_MYSQL_WAITED_IN_VAIN = {
    1205,  # longer than innodb_lock_wait_timeout or lock_wait_timeout
    1213,  # a deadlock: several waited for one row, and were all let go at once
}
_MYSQL_LOCK_VARIABLES = ("innodb_lock_wait_timeout", "lock_wait_timeout")

LOCK_TIMEOUTS = f"SELECT {', '.join(f'@@SESSION.{name}' for name in _MYSQL_LOCK_VARIABLES)}"
"""Asks for those of this connection, in seconds."""


def late(transaction_id: str, state: str | None) -> CheckbackError:
    """What ``record`` raises when there is a row already."""
    if state == COMMITTED:
        return DuplicateTransactionError(
            f"Transaction {transaction_id} is recorded already, so its local transaction has run before: "
            "roll this one back."
        )
    return TransactionBlockedError(
        f"Transaction {transaction_id} came too late: a check has answered 'rollback' for it. Roll back; "
        "to do the work after all, send a new message."
    )


def lost(transaction_id: str) -> CheckbackError:
    """What there is to raise before a COMMIT that would commit all but the record."""
    return RecordLostError(
        f"The database transaction of {transaction_id} would be committed without its record, which is gone: it was "
        "rolled back or ended inside, or the database has undone it after an error that was swallowed. Roll back, and "
        "run all of it again; an error inside a transaction must end it."
    )


def refuse_no_lock_timeout(lock_timeout_ms: int) -> None:
    """Raises ConfigurationError below 1 ms."""
    if lock_timeout_ms < 1:
        raise ConfigurationError(f"lock_timeout_ms is {lock_timeout_ms}, must be at least 1: 0 would wait for ever.")


ASK_LIMIT = timedelta(days=22)
"""For how long a job with the default settings may ask about a transaction (``transactions.ask_limit_ms``)."""


def refuse_no_age(older_than: timedelta, name: str = "older_than") -> None:
    """Raises ConfigurationError unless it is one, and above zero."""
    if not isinstance(older_than, timedelta):
        raise ConfigurationError(f"{name} is {older_than!r}, not a timedelta: give timedelta(days=30), say.")
    if older_than <= timedelta(0):
        raise ConfigurationError(
            f"{name} is {older_than}, which is not above zero. Give more than the time for which the job may ask, "
            f"which is {ASK_LIMIT.days} days with the default settings: timedelta(days=30), say."
        )


def refuse_unsafe(table: str, found: Iterable[Any]) -> None:
    """Make sure that on MySQL a row goes with its transaction, and that only the same key is the same.

    Raises:
        ConfigurationError: the table is another engine's than InnoDB's, or its key is text.
    """
    for engine, kind in found:
        if engine != "InnoDB":
            raise ConfigurationError(
                f"The table {table} is kept by {engine}, not by InnoDB, so its rows may stay when a transaction "
                f"is rolled back: ALTER TABLE `{table}` ENGINE=InnoDB."
            )
        if not kind.lower().endswith("binary"):
            raise ConfigurationError(
                f"The key of the table {table} is {kind}, so that MySQL takes ids for the same that are not ('A' "
                "and 'a', say): make the table as we do, with VARBINARY."
            )


def is_lock_timeout(error: BaseException | None) -> bool:
    """Whether a driver says that a lock was waited for in vain: psycopg, psycopg2, asyncpg, sqlite3, MySQL's."""
    sqlstate = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says why it was busy
    waited = mysql_code(error) in _MYSQL_WAITED_IN_VAIN
    return sqlstate == _POSTGRESQL_LOCK_NOT_AVAILABLE or primary == sqlite3.SQLITE_BUSY or waited


def mysql_code(error: BaseException | None) -> Any:
    """The server's number: PyMySQL, mysqlclient and asyncio's drivers have it first."""
    given = getattr(error, "args", ())
    return getattr(error, "errno", None) or (given[0] if given else None)


def refuse_no_group(group: str) -> None:
    """Raises ConfigurationError unless this can be a consumer group."""
    if not 0 < len(group.encode()) <= MAX_GROUP_BYTES or "\0" in group:
        raise ConfigurationError(f"A group's name has 1 to {MAX_GROUP_BYTES} bytes; {group!r:.80} does not fit.")


def aged(older_than: timedelta, batch: int) -> datetime:
    """What is pruned was received before it.

    Raises:
        ConfigurationError: an argument is not above zero.
    """
    if older_than <= timedelta(0):
        raise ConfigurationError(f"older_than is {older_than}, must be longer than a message may come again.")
    if batch < 1:
        raise ConfigurationError(f"batch is {batch}, must be at least 1.")
    return datetime.now(UTC) - older_than


def limited_to(milliseconds: int) -> list[int]:
    """Time-outs in whole seconds, as the server counts, and not less than asked for."""
    return [-(-milliseconds // 1_000)] * len(_MYSQL_LOCK_VARIABLES)


def set_lock_timeouts(seconds: Sequence[int]) -> str:
    """The statement that sets what :data:`LOCK_TIMEOUTS` asks for."""
    pairs = zip(_MYSQL_LOCK_VARIABLES, seconds, strict=True)
    return "SET " + ", ".join(f"SESSION {name} = {value:d}" for name, value in pairs)
