"""The transaction log: a table that answers checks, so that the application does not have to (DTM calls it a barrier).

The local transaction writes its id into the table; a check looks it up there. Needs the extra ``sql`` (SQLAlchemy), and
is therefore not in ``import checkback``: ``from checkback.sql.transaction_log import SqlTransactionLog``. All cases are
in ``docs/transaction-log.md``.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import Column, Connection, DateTime, Engine, MetaData, String, Table, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import SingletonThreadPool, StaticPool
from sqlalchemy.schema import CreateTable

from checkback.exceptions import ConfigurationError, DuplicateTransactionError, TransactionBlockedError
from checkback.listener import LocalTransactionState
from checkback.sql.database import INSERTS, refuse_autocommit
from checkback.wire.checks import CheckRequest

COMMITTED = "committed"
"""In the column *state*: the transaction has committed."""
BLOCKED = "blocked"
"""In the column *state*: a check came before the commit, which can no longer be."""

_POSTGRESQL_LOCK_NOT_AVAILABLE = "55P03"


class SqlTransactionLog:
    """Remembers which local transactions have committed, in the database in which they do; answers checks from that.

    It is a :class:`checkback.TransactionChecker`: give it to ``check_app`` or ``CheckEndpoint``. *Rollback* is never
    answered for a local transaction that has committed or will commit, nor *commit* for one that has not, whatever the
    number of processes. One instance serves all threads.

    The id alone is the table's key, since the protocol has it unique: several producer groups may share a table. The
    engine must reach the very database that ``record`` writes to, its primary and no replica.

    Args:
        engine: of PostgreSQL or of SQLite with a database file. Checks take connections of their own from it.
        table: the table's name.
        lock_timeout_ms: how long a check waits, in each of its two steps, for a local transaction that is still running
            before it answers *unknown*. Twice this must stay below the job's ``checks.ask_timeout`` (3 s).

    Raises:
        ConfigurationError: the database is another one, all its connections are one, or the time-out is below 1 ms.
    """

    def __init__(self, engine: Engine, *, table: str = "checkback_transactions", lock_timeout_ms: int = 1_000) -> None:
        if engine.dialect.name not in INSERTS:
            raise ConfigurationError(
                f"The transaction log works on {' and '.join(INSERTS)}, not on {engine.dialect.name}: "
                "answer checks with a check_local_transaction of your own."
            )
        if isinstance(engine.pool, StaticPool | SingletonThreadPool):
            raise ConfigurationError(
                "The engine's connections are one: a check would see what is not committed. Use a SQLite database "
                "file and the default pool."
            )
        if lock_timeout_ms < 1:
            raise ConfigurationError(
                f"lock_timeout_ms is {lock_timeout_ms}, must be at least 1: 0 would wait for ever."
            )
        self._engine = engine
        self._lock_timeout_ms = lock_timeout_ms
        self._table = Table(
            table,
            MetaData(),
            Column("transaction_id", String(64), primary_key=True),  # the protocol's limit
            Column("state", String(9), nullable=False),
            Column("recorded_at", DateTime(timezone=True), nullable=False),
        )

    def create_table(self) -> None:
        """Make the table unless it is there. Several processes may do so at once."""
        try:
            with self._engine.begin() as connection:
                connection.execute(CreateTable(self._table, if_not_exists=True))
        except DBAPIError:
            # PostgreSQL's IF NOT EXISTS fails when another process makes the table at the same moment.
            if not inspect(self._engine).has_table(self._table.name):
                raise

    def record(self, connection: Connection | Session, transaction_id: str) -> None:
        """Write into the caller's database transaction that this local transaction commits, if it does.

        Call it first in the database transaction: a check that comes while it runs then waits and answers *unknown*.
        Called later it is as safe, but such a check blocks the transaction. Do not call it inside a savepoint that may
        be rolled back alone. When it raises, roll back. Under REPEATABLE READ and SERIALIZABLE the database's own
        serialization failure may come in place of our errors: tried again, it is one of them.

        Raises:
            TransactionBlockedError: a check has answered *rollback* already.
            DuplicateTransactionError: the id is recorded already.
            ConfigurationError: the connection commits each statement by itself; nothing was written.
        """
        if isinstance(connection, Session):
            connection = connection.connection()
        refuse_autocommit(connection, "the local transaction")
        if self._insert(connection, transaction_id, COMMITTED):
            return
        if self._state(connection, transaction_id) == COMMITTED:
            raise DuplicateTransactionError(
                f"Transaction {transaction_id} is recorded already, so its local transaction has run before: "
                "roll this one back."
            )
        raise TransactionBlockedError(
            f"Transaction {transaction_id} came too late: a check has answered 'rollback' for it. Roll back; "
            "to do the work after all, send a new message."
        )

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction.

        1. Look the id up: committed is answered with *commit*, blocked with *rollback*.
        2. It is not there: block it, so that it can never commit any more, and answer *rollback*. When it is running,
           wait for its end; *unknown* after ``lock_timeout_ms``.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed. An endpoint answers that with *unknown*.
        """
        try:
            with self._own_transaction() as connection:
                state = self._state(connection, request.transaction_id)  # 1
            if state is None:
                # A transaction apart from the first: SQLite lets none write that has read what is no longer the newest.
                with self._own_transaction() as connection:
                    self._insert(connection, request.transaction_id, BLOCKED)  # 2
                    state = self._state(connection, request.transaction_id)
        except DBAPIError as error:
            if _is_lock_timeout(error):
                return LocalTransactionState.UNKNOWN
            raise
        return _ANSWERS[state]

    def prune(self, older_than: timedelta) -> int:
        """Delete rows of that age, in one statement; returns their number. Nothing else ever deletes one.

        A transaction that is checked after its row is deleted is rolled back although it has committed. So
        ``older_than`` must be longer than the job's ``transactions.age_limit``, plus the time for which the job may be
        down, plus ``transactions.parked_ttl`` where operators resume parked messages. With the default settings 30 days
        are enough. Ages are by the clocks of the processes that record and prune.

        Raises:
            ConfigurationError: ``older_than`` is not above zero.
        """
        if older_than <= timedelta(0):
            raise ConfigurationError(f"older_than is {older_than}, must be longer than the job's age limit.")
        aged = self._table.c.recorded_at < datetime.now(UTC) - older_than
        with self._engine.begin() as connection:
            return connection.execute(self._table.delete().where(aged)).rowcount

    def _insert(self, connection: Connection, transaction_id: str, state: str) -> bool:
        """Whether there was no row yet. Waits for a running transaction that has inserted one."""
        row = {"transaction_id": transaction_id, "state": state, "recorded_at": datetime.now(UTC)}
        insert = INSERTS[self._engine.dialect.name](self._table).values(row).on_conflict_do_nothing()
        # RETURNING and no rowcount: SQLAlchemy does not keep that of an insert
        return connection.execute(insert.returning(self._table.c.state)).first() is not None

    def _state(self, connection: Connection, transaction_id: str) -> str | None:
        wanted = self._table.c.transaction_id == transaction_id
        return connection.execute(select(self._table.c.state).where(wanted)).scalar()

    @contextmanager
    def _own_transaction(self) -> Iterator[Connection]:
        """A transaction of the check's own, committed at the end, with a time limit for locks."""
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                with _busy_timeout(connection, self._lock_timeout_ms), connection.begin():
                    yield connection
            else:
                # Whatever the engine's level: after the wait, the look must see what was committed meanwhile.
                connection.execution_options(isolation_level="READ COMMITTED")
                with connection.begin():
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {self._lock_timeout_ms:d}")
                    yield connection


_ANSWERS = {
    COMMITTED: LocalTransactionState.COMMIT,
    BLOCKED: LocalTransactionState.ROLLBACK,
    None: LocalTransactionState.UNKNOWN,  # pruned in between
}


@contextmanager
def _busy_timeout(connection: Connection, milliseconds: int) -> Iterator[None]:
    """SQLite's own lock time-out, of a connection that goes back to the pool with the one it had."""
    driver: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]  # the dialect says so
    ((before,),) = driver.execute("PRAGMA busy_timeout").fetchall()
    driver.execute(f"PRAGMA busy_timeout = {milliseconds:d}").close()
    try:
        yield
    finally:
        driver.execute(f"PRAGMA busy_timeout = {before:d}").close()


def _is_lock_timeout(error: DBAPIError) -> bool:
    """Whether a lock was waited for in vain, in the words of psycopg, psycopg2 and sqlite3."""
    sqlstate = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    primary = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest says why it was busy
    return sqlstate == _POSTGRESQL_LOCK_NOT_AVAILABLE or primary == sqlite3.SQLITE_BUSY
