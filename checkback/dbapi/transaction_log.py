"""The transaction log on plain connections: table, states and promise of ``SqlTransactionLog``, without SQLAlchemy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from checkback.dbapi.databases import DbapiConnection, dialect_of, execute, fetched
from checkback.dbapi.log_table import LogTable
from checkback.dbapi.pruning import PAGE, Pruning
from checkback.dbapi.states import (
    ANSWERS,
    BLOCKED,
    COMMITTED,
    is_lock_timeout,
    late,
    lost,
    refuse_no_age,
    refuse_no_lock_timeout,
)
from checkback.dbapi.transacting import DbapiTransactions
from checkback.exceptions import ConfigurationError
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest

C = TypeVar("C", bound=DbapiConnection)


class DbapiTransactionLog(Generic[C]):
    """Remembers which local transactions have committed, in the database in which they do; answers checks from that.

    As :class:`~checkback.sql.transaction_log.SqlTransactionLog`, whose table it may share, on connections of psycopg
    (PostgreSQL), PyMySQL (MySQL, MariaDB) and sqlite3 (a file). One instance serves all threads.

    Args:
        connect: opens a connection to the primary; each check opens one, and closes it: ``lambda:
            psycopg.connect(...)``.
        table: the table's name.
        lock_timeout_ms: how long a check waits, in each of its two steps, for a local transaction that is still running
            before it answers *unknown*. Twice this must stay below the job's ``checks.ask_timeout`` (3 s). MySQL and
            MariaDB count whole seconds: it is rounded up.
        prune_after: as ``SqlTransactionLog`` has it.

    Raises:
        ConfigurationError: the time-out is below 1 ms, or the age is not above zero.
    """

    def __init__(
        self,
        connect: Callable[[], C],
        *,
        table: str = "checkback_transactions",
        lock_timeout_ms: int = 1_000,
        prune_after: timedelta | None = None,
    ) -> None:
        refuse_no_lock_timeout(lock_timeout_ms)
        self.connect = connect
        self._table = table
        self._lock_timeout_ms = lock_timeout_ms
        self._pruning = Pruning(prune_after)
        self._table_is_safe = False
        """Whether it has been looked at, once for each process."""

    def create_table(self) -> None:
        """Make the table unless it is there. Several processes may do so at once.

        Raises:
            ConfigurationError: the connections are another driver's.
        """
        with self._own_connection() as connection:
            dialect = dialect_of(connection)
            try:
                execute(connection, dialect.ddl(self._table))
                connection.commit()
            except Exception:  # noqa: BLE001  (of whatever driver; the look raises where it is not that)
                # PostgreSQL's IF NOT EXISTS fails when another process makes the table at the same moment.
                connection.rollback()
                fetched(connection, f"SELECT state FROM {dialect.named(self._table)} WHERE 1 = 0")  # noqa: S608  (quoted)
            self._refuse_unsafe_table(connection)

    def record(self, connection: C, transaction_id: str) -> None:
        """Write into the caller's database transaction that this local transaction commits, if it does.

        ``producer.transaction(message, database=log.of())`` does. Without it, call :meth:`refuse_lost` before the
        commit. Otherwise as ``SqlTransactionLog.record``.

        Raises:
            TransactionBlockedError: a check has answered *rollback* already.
            DuplicateTransactionError: the id is recorded already.
            ConfigurationError: the connection commits each statement by itself, or MySQL keeps the table in an engine
                without transactions; nothing was written.
        """
        if dialect_of(connection).in_autocommit_mode(connection):
            raise ConfigurationError(
                "This connection is in autocommit mode, so the record would not belong to the local transaction: open "
                "a database transaction."
            )
        self._refuse_unsafe_table(connection)
        table = self._table_on(connection)
        if not table.insert(connection, transaction_id, COMMITTED):
            raise late(transaction_id, table.state(connection, transaction_id, newest=True))

    def refuse_lost(self, connection: C, transaction_id: str) -> None:
        """Make sure, last in the database transaction, that COMMIT will commit the record.

        A failed statement whose error the application has swallowed has PostgreSQL answer COMMIT with a rollback, and
        InnoDB go on without what was written.

        Raises:
            RecordLostError: it would not: roll back.
            Exception: of the driver, likewise; PostgreSQL takes no statement any more.
        """
        if not self.has_committed(connection, transaction_id):
            raise lost(transaction_id)

    def of(self, connection: C | None = None) -> DbapiTransactions[C]:
        """What ``producer.transaction(message, database=...)`` takes, to begin, record and commit in the right order.

        Args:
            connection: one that is in no database transaction; None: each block opens one, and closes it.
        """
        return DbapiTransactions(self, connection)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction, as ``SqlTransactionLog`` does.

        Raises:
            Exception: of the driver: the database failed. An endpoint answers that with *unknown*.
        """
        asked = request.transaction_id
        with self._own_connection() as connection:
            table = self._table_on(connection)
            try:
                table.dialect.limit_waiting(connection, self._lock_timeout_ms)
                state = table.state(connection, asked)  # 1
                connection.rollback()
                if state is None:
                    # A transaction apart from the first: SQLite lets none write that has read what is no longer newest.
                    table.dialect.limit_waiting(connection, self._lock_timeout_ms)
                    self._refuse_unsafe_table(connection)
                    table.insert(connection, asked, BLOCKED)  # 2
                    state = table.state(connection, asked, newest=True)
                    connection.commit()
            except Exception as error:
                if is_lock_timeout(error):
                    return LocalTransactionState.UNKNOWN
                raise
            self._pruning.after_check(request, partial(self._prune_page, connection))
        return ANSWERS[state]

    def prune(self, older_than: timedelta) -> int:
        """Delete rows of that age, in many small transactions; returns their number.

        How old they must be, says ``SqlTransactionLog.prune``.

        Raises:
            ConfigurationError: ``older_than`` is not above zero.
        """
        refuse_no_age(older_than)
        pruned, before = 0, datetime.now(UTC) - older_than
        with self._own_connection() as connection:
            while True:
                found = self._table_on(connection).aged(connection, before)
                connection.commit()
                pruned += self._delete(connection, found)
                if len(found) < PAGE:
                    return pruned

    def has_committed(self, connection: C, transaction_id: str) -> bool:
        """Whether the caller's database transaction sees the record of this one."""
        return self._table_on(connection).state(connection, transaction_id) == COMMITTED

    def _prune_page(self, connection: C, after: Any, before: datetime) -> Any:
        """See :data:`checkback.dbapi.pruning.Page`."""
        aged, last = self._table_on(connection).page(connection, after, before)
        connection.commit()
        self._delete(connection, aged)
        return last

    def _delete(self, connection: C, keys: Sequence[Any]) -> int:
        deleted = self._table_on(connection).delete(connection, keys)
        connection.commit()
        return deleted

    def _table_on(self, connection: C) -> LogTable:
        return LogTable(dialect_of(connection), self._table)

    def _refuse_unsafe_table(self, connection: C) -> None:
        if not self._table_is_safe:
            self._table_is_safe = dialect_of(connection).refuse_unsafe_table(connection, self._table)

    @contextmanager
    def _own_connection(self) -> Iterator[C]:
        connection = self.connect()
        try:
            yield connection
        finally:
            with suppress(Exception):  # it is lost
                connection.rollback()
            connection.close()
