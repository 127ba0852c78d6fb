"""The transaction log: a table that answers checks, so that the application does not have to (DTM calls it a barrier).

The local transaction writes its id into the table; a check looks it up there. Needs the extra ``sql`` (SQLAlchemy), and
is therefore not in ``import checkback``: ``from checkback.sql.transaction_log import SqlTransactionLog``. All cases are
in ``docs/transaction-log.md``.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast, overload

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    MetaData,
    Select,
    String,
    Table,
    case,
    func,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import SingletonThreadPool, StaticPool
from sqlalchemy.schema import CreateTable

from checkback.dbapi.pruning import PAGE, Pruning
from checkback.dbapi.states import (
    ANSWERS,
    BLOCKED,
    COMMITTED,
    is_lock_timeout,
    late,
    refuse_no_age,
    refuse_no_lock_timeout,
)
from checkback.exceptions import ConfigurationError
from checkback.listener import LocalTransactionState
from checkback.producing.scope import note_recorded
from checkback.sql import mysql
from checkback.sql.commit_guard import hears_commit, insist_on_commit, insist_on_rows
from checkback.sql.database import insert_new, refuse_another_schema, refuse_autocommit, refuse_others
from checkback.sql.opening import OpensTransactions
from checkback.sql.tables import exact_text, moment
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import MAX_ID_BYTES

if TYPE_CHECKING:  # importing it needs greenlet, which applications without asyncio do not have
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

    AnyEngine = Engine | AsyncEngine
    AsyncWork = AsyncConnection | AsyncSession

Work = Connection | Session | scoped_session[Session]
T = TypeVar("T")

_PRUNED_AT_ONCE = 1_000


class SqlTransactionLog(OpensTransactions):
    """Remembers which local transactions have committed, in the database in which they do; answers checks from that.

    It is a :class:`checkback.TransactionChecker`: give it to ``check_app`` or ``CheckEndpoint``. *Rollback* is never
    answered for a local transaction that has committed or will commit, nor *commit* for one that has not, whatever the
    number of processes. One instance serves all threads.

    The id alone is the table's key, since the protocol has it unique: several producer groups may share a table. The
    engine must reach the very database that ``record`` writes to, its primary and no replica.

    Args:
        engine: of PostgreSQL, MySQL, MariaDB, or of SQLite with a database file. Checks take connections of their own
            from it. With an ``AsyncEngine`` each check opens one, since its thread has no part in the application's
            loop; ``create_table_async`` and ``prune_async`` are for that loop.
        table: the table's name.
        lock_timeout_ms: how long a check waits, in each of its two steps, for a local transaction that is still running
            before it answers *unknown*. Twice this must stay below the job's ``checks.ask_timeout`` (3 s). MySQL and
            MariaDB count whole seconds: it is rounded up.
        prune_after: rows that are older go by themselves, some with each check, once the job has said that it asks
            about nothing that old (``docs/transaction-log.md``); None: :meth:`prune` deletes them.

    Raises:
        ConfigurationError: the database is another one, all its connections are one, or the time-out is below 1 ms.
    """

    def __init__(
        self,
        engine: "AnyEngine",
        *,
        table: str = "checkback_transactions",
        lock_timeout_ms: int = 1_000,
        prune_after: timedelta | None = None,
    ) -> None:
        refuse_others(
            engine.dialect.name, "transaction log", "answer checks with a check_local_transaction of your own."
        )
        if isinstance(engine.pool, StaticPool | SingletonThreadPool):
            raise ConfigurationError(
                "The engine's connections are one: a check would see what is not committed. Use a SQLite database "
                "file and the default pool."
            )
        refuse_no_lock_timeout(lock_timeout_ms)
        self._asyncio = None if isinstance(engine, Engine) else engine
        self._engine = engine if isinstance(engine, Engine) else engine.sync_engine
        self._lock_timeout_ms = lock_timeout_ms
        self._pruning = Pruning(prune_after)
        self._table = Table(
            table,
            MetaData(),
            Column("transaction_id", exact_text(MAX_ID_BYTES), primary_key=True),
            Column("state", String(9), nullable=False),
            Column("recorded_at", moment(), nullable=False),
            **mysql.TABLE_OPTIONS,
        )
        self._is_mysql = engine.dialect.name in mysql.NAMES
        self._table_is_safe = not self._is_mysql
        """Whether it has been looked at, once for each process."""

    def create_table(self) -> None:
        """Make the table unless it is there. Several processes may do so at once."""
        self._refuse_asyncio("create_table_async")
        self._create_table()

    async def create_table_async(self) -> None:
        """Likewise, with an ``AsyncEngine``."""
        await self._below_asyncio(self._create_table)

    def _create_table(self) -> None:
        try:
            with self._engine.begin() as connection:
                connection.execute(CreateTable(self._table, if_not_exists=True))
                self._refuse_unsafe_table(connection)
        except DBAPIError:
            # PostgreSQL's IF NOT EXISTS fails when another process makes the table at the same moment.
            if not inspect(self._engine).has_table(self._table.name):
                raise

    @overload
    def record(self, connection: "AsyncWork", transaction_id: str) -> Coroutine[Any, Any, None]: ...
    @overload
    def record(self, connection: Work, transaction_id: str) -> None: ...
    def record(self, connection: "Work | AsyncWork", transaction_id: str) -> Coroutine[Any, Any, None] | None:
        """Write into the caller's database transaction that this local transaction commits, if it does.

        Call it first in the database transaction: a check that comes while it runs then waits and answers *unknown*.
        Called later it is as safe, but such a check blocks the transaction. When it raises, roll back. Under REPEATABLE
        READ and SERIALIZABLE the database's own serialization failure may come in place of our errors: tried again, it
        is one of them.

        Args:
            connection: in whose transaction the application works; of asyncio it is ``await log.record(...)``.
            transaction_id: of the half message.

        Raises:
            TransactionBlockedError: a check has answered *rollback* already.
            DuplicateTransactionError: the id is recorded already.
            ConfigurationError: the connection commits each statement by itself, its ``schema_translate_map`` means
                another table than the engine's, or MySQL keeps the table in an engine without transactions; nothing
                was written.
            RecordLostError: not here, but when the transaction commits: the record is not in it any more, since an
                error was handled inside, or a savepoint around the call rolled back; nothing is committed.
        """
        if not isinstance(connection, Connection | Session | scoped_session):
            given: Any = connection
            work = given if hasattr(given, "run_sync") else given()  # an async_scoped_session
            return cast("Coroutine[Any, Any, None]", work.run_sync(self._record, transaction_id))
        self._record(connection, transaction_id)
        return None

    def _record(self, connection: Work, transaction_id: str) -> None:
        if not isinstance(connection, Connection):
            session: Session = connection() if isinstance(connection, scoped_session) else connection
            connection = session.connection()
            insist_on_commit(session)
        refuse_autocommit(connection, "the local transaction")
        refuse_another_schema(connection, self._engine, self._table)
        self._refuse_unsafe_table(connection)
        # before the insert: who handles its error must not commit, either
        expected = insist_on_rows(connection, self._committed(transaction_id), 1)
        if self._insert(connection, transaction_id, COMMITTED):
            expected.written = True
            if hears_commit(connection):
                note_recorded(transaction_id, (id(self._engine), self._table.name), expected)
            return
        raise late(transaction_id, self._state(connection, transaction_id, newest=True))

    def has_committed(self, connection: Work, transaction_id: str) -> bool:
        """Whether the caller's database transaction sees the record of this one."""
        if not isinstance(connection, Connection):
            connection = connection.connection()
        return self._state(connection, transaction_id) == COMMITTED

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction.

        1. Look the id up: committed is answered with *commit*, blocked with *rollback*.
        2. It is not there: block it, so that it can never commit any more, and answer *rollback*. When it is running,
           wait for its end; *unknown* after ``lock_timeout_ms``.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed. An endpoint answers that with *unknown*.
        """
        if self._asyncio is None:
            return self._checked(request)
        from checkback.sql.async_transacting import run_in_own_loop  # noqa: PLC0415  (it needs greenlet)

        return run_in_own_loop(self._asyncio, lambda engine: self._on(engine)._checked(request))  # noqa: SLF001  (a copy of us)

    def _checked(self, request: CheckRequest) -> LocalTransactionState:
        answer = self._answer(request)
        self._pruning.after_check(request, self._prune_page)
        return answer

    def _answer(self, request: CheckRequest) -> LocalTransactionState:
        try:
            with self._own_transaction() as connection:
                state = self._state(connection, request.transaction_id)  # 1
            if state is None:
                # A transaction apart from the first: SQLite lets none write that has read what is no longer the newest.
                with self._own_transaction() as connection:
                    self._refuse_unsafe_table(connection)
                    self._insert(connection, request.transaction_id, BLOCKED)  # 2
                    state = self._state(connection, request.transaction_id, newest=True)
        except DBAPIError as error:
            if is_lock_timeout(error.orig):
                return LocalTransactionState.UNKNOWN
            raise
        return ANSWERS[state]

    def prune(self, older_than: timedelta) -> int:
        """Delete rows of that age; returns their number. Nothing else deletes one. MySQL: row by row.

        A transaction that is checked after its row is deleted is rolled back although it has committed. So
        ``older_than`` must be longer than the job's ``transactions.age_limit``, plus the time for which the job may be
        down, plus ``transactions.parked_ttl`` where operators resume parked messages. With the default settings 30 days
        are enough. Ages are by the clocks of the processes that record and prune.

        Raises:
            ConfigurationError: ``older_than`` is not above zero.
        """
        refuse_no_age(older_than)
        self._refuse_asyncio("prune_async")
        return self._prune(older_than)

    async def prune_async(self, older_than: timedelta) -> int:
        """Likewise, with an ``AsyncEngine``."""
        refuse_no_age(older_than)
        return await self._below_asyncio(self._prune, older_than)

    def _prune(self, older_than: timedelta) -> int:
        aged = self._table.c.recorded_at < datetime.now(UTC) - older_than
        if self._is_mysql:
            return self._prune_by_keys(aged)
        with self._engine.begin() as connection:
            return connection.execute(self._table.delete().where(aged)).rowcount

    def _prune_by_keys(self, aged: ColumnElement[bool]) -> int:
        """A DELETE by age would lock each row until its end, and wait for those of running transactions."""
        key, pruned = self._table.c.transaction_id, 0
        while True:
            with self._own_transaction() as connection:
                found = connection.scalars(select(key).where(aged).order_by(key).limit(_PRUNED_AT_ONCE)).all()
                mysql.delete_each(connection, self._table.delete(), key, found)
                pruned += len(found)
            if len(found) < _PRUNED_AT_ONCE:
                return pruned

    def _prune_page(self, after: str | None, before: datetime) -> str | None:
        """See :data:`checkback.dbapi.pruning.Page`."""
        key, aged = self._table.c.transaction_id, self._table.c.recorded_at < before
        rows = select(key, case((aged, 1), else_=0)).where(key > (after or "")).order_by(key).limit(PAGE)
        with self._own_transaction() as connection:
            page = connection.execute(rows).all()
            old = [row[0] for row in page if row[1]]
            if old:
                connection.execute(self._table.delete().where(key.in_(old)))
        return page[-1][0] if len(page) == PAGE else None

    def _refuse_asyncio(self, instead: str) -> None:
        if self._asyncio is not None:
            raise ConfigurationError(f"The transaction log was given an AsyncEngine: use {instead}.")

    async def _below_asyncio(self, step: Callable[..., T], *arguments: Any) -> T:
        from checkback.sql.async_transacting import run_below  # noqa: PLC0415  (it needs greenlet)

        if self._asyncio is None:
            raise ConfigurationError("The transaction log was given an Engine that is not asyncio's: leave _async out.")
        return await run_below(self._asyncio, step, *arguments)

    def _on(self, engine: Engine) -> Self:
        other = copy(self)
        other._engine = engine  # noqa: SLF001  (a copy of us)
        return other

    def _refuse_unsafe_table(self, connection: Connection) -> None:
        if not self._table_is_safe:
            self._table_is_safe = mysql.refuse_unsafe_table(connection, self._table)

    def _insert(self, connection: Connection, transaction_id: str, state: str) -> bool:
        """Whether there was no row yet. Waits for a running transaction that has inserted one."""
        row = {"transaction_id": transaction_id, "state": state, "recorded_at": datetime.now(UTC)}
        return bool(insert_new(connection, self._table, [row], self._table.c.transaction_id))

    def _state(self, connection: Connection, transaction_id: str, *, newest: bool = False) -> str | None:
        wanted = select(self._table.c.state).where(self._table.c.transaction_id == transaction_id)
        if newest and self._is_mysql:
            # Under REPEATABLE READ a plain look goes by the transaction's snapshot, in which a row that has just
            # stopped our insert need not be. This one locks nothing more: the insert has.
            wanted = wanted.with_for_update(read=True)
        return connection.execute(wanted).scalar()

    def _committed(self, transaction_id: str) -> Select[int]:
        columns = self._table.c
        ours = (columns.transaction_id == transaction_id, columns.state == COMMITTED)
        return select(func.count()).select_from(self._table).where(*ours)

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
                if self._is_mysql:
                    with connection.begin(), mysql.lock_timeout(connection, self._lock_timeout_ms):
                        yield connection
                    return
                with connection.begin():
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {self._lock_timeout_ms:d}")
                    yield connection


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
