"""The transaction log on Django's own connections: table and promise of ``SqlTransactionLog``, without SQLAlchemy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.db import DEFAULT_DB_ALIAS, Error, transaction

from checkback.dbapi.log_table import LogTable
from checkback.dbapi.pruning import PAGE, Pruning
from checkback.dbapi.states import (
    BLOCKED,
    COMMITTED,
    is_lock_timeout,
    late,
    lost,
    refuse_no_age,
    refuse_no_lock_timeout,
)
from checkback.django.databases import begin_to_look, connection_of, dialect_of, limited_waiting, refuse_inside
from checkback.exceptions import ConfigurationError
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest

TABLE = "checkback_transactions"


class DjangoTransactionLog:
    """Remembers which local transactions have committed, in the databases in which they do; answers checks from that.

    A :class:`checkback.TransactionChecker`. *Rollback* is never answered for a local transaction that has committed or
    will commit, nor *commit* for one that has not, whatever the number of processes: the row's key decides which of the
    two came first, ``record`` or the check.

    A transaction is recorded in one of the databases. Which one a check does not know: it asks all. *Commit* is what
    any of them has; *rollback* needs the row of a check in each.

    Args:
        databases: the aliases of all in which ``record`` may be called, as DATABASES has them; primaries, no replicas.
        lock_timeout_ms: how long a check waits, in each of its two steps and databases, for a local transaction that
            is still running before it answers *unknown*. Twice this must stay below the job's ``checks.ask_timeout``
            (3 s). MySQL and MariaDB count whole seconds: it is rounded up.
        prune_after: rows that are older go by themselves, some with each check and in each database, once the job has
            said that it asks about nothing that old; None: :meth:`prune` deletes them.

    Raises:
        ConfigurationError: the time-out is below 1 ms, or the age is not above zero.
    """

    def __init__(
        self,
        databases: Sequence[str] = (DEFAULT_DB_ALIAS,),
        *,
        lock_timeout_ms: int = 1_000,
        prune_after: timedelta | None = None,
    ) -> None:
        refuse_no_lock_timeout(lock_timeout_ms)
        self.databases = tuple(databases)
        self._lock_timeout_ms = lock_timeout_ms
        self._pruning = {alias: Pruning(prune_after) for alias in self.databases}
        self._safe: set[str] = set()
        """Databases whose table has been looked at, once for each process."""

    def record(self, transaction_id: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        """Write into the ``atomic`` around the call that this local transaction commits, if it does; call it first.

        ``transactional`` does. Do not swallow its errors, and do not call it in an ``atomic`` inside another one.

        Raises:
            TransactionBlockedError: a check has answered *rollback* already.
            DuplicateTransactionError: the id is recorded already.
            ConfigurationError: there is no ``atomic``, checks do not ask this database, or MySQL keeps the table in an
                engine without transactions; nothing was written.
        """
        self.refuse_unknown(using)
        connection = connection_of(using)
        if not connection.in_atomic_block:
            raise ConfigurationError(
                f"record() belongs inside 'with transaction.atomic(using={using!r}, durable=True)': outside, the row "
                "would be committed by itself. transactional() does it all."
            )
        table = self._safe_table(connection)
        if not table.insert(connection, transaction_id, COMMITTED):
            raise late(transaction_id, table.state(connection, transaction_id, newest=True))

    def refuse_lost(self, transaction_id: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        """Make sure, last in the ``atomic``, that the COMMIT to come will commit the row.

        A failed statement whose error the application has swallowed ends PostgreSQL's transaction, and COMMIT then
        rolls back without an error; after a deadlock InnoDB has begun another transaction without a word, and after a
        lock time-out it goes on without what was written; a ROLLBACK of the application's own takes the row away. One
        look finds all of them.

        Raises:
            RecordLostError: it would not.
            django.db.Error: likewise; PostgreSQL takes no statement any more.
        """
        connection = connection_of(using)
        if _table_on(connection).state(connection, transaction_id) != COMMITTED:
            raise lost(transaction_id)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction.

        1. Look the id up in each database: committed in one of them is answered with *commit*.
        2. Where it is not, block it, so that it can never commit there any more. Blocked in all of them: *rollback*.
           When it is running, wait for its end; *unknown* after ``lock_timeout_ms``.

        Raises:
            django.db.Error: a database failed. An endpoint answers that with *unknown*.
            ConfigurationError: it is called inside an ``atomic``: what it blocks must be committed when it answers.
        """
        answer = self._answer(request.transaction_id)
        for alias, pruning in self._pruning.items():
            pruning.after_check(request, partial(self._prune_page, alias))
        return answer

    def prune(self, older_than: timedelta) -> int:
        """Delete rows of that age, in many small transactions; returns their number.

        A transaction that is checked after its row is deleted is rolled back although it has committed: 30 days are
        enough for the job's default settings, ``docs/transaction-log.md`` says what counts.

        Raises:
            ConfigurationError: ``older_than`` is not above zero.
        """
        refuse_no_age(older_than)
        before = datetime.now(UTC) - older_than
        return sum(self._prune(alias, before) for alias in self.databases)

    def refuse_unknown(self, using: str) -> None:
        """Raises ConfigurationError where checks do not ask this database, and would roll back what it commits."""
        if using not in self.databases:
            raise ConfigurationError(
                f"Checks do not ask database {using!r}: add it to CHECKBACK['DATABASES'] in settings.py, which has "
                f"{', '.join(self.databases)}."
            )

    def _answer(self, asked: str) -> LocalTransactionState:
        for alias in self.databases:
            why = "what it blocks must be committed when it answers."
            refuse_inside(connection_of(alias), "check_local_transaction", why)
        try:
            states = {alias: self._look(alias, asked) for alias in self.databases}  # 1
            if COMMITTED in states.values():
                return LocalTransactionState.COMMIT
            # Transactions apart from the first: SQLite lets none write that has read what is no longer the newest.
            states = {alias: state or self._block(alias, asked) for alias, state in states.items()}  # 2
        except Error as error:
            if is_lock_timeout(error.__cause__):
                return LocalTransactionState.UNKNOWN
            raise
        if COMMITTED in states.values():
            return LocalTransactionState.COMMIT
        blocked = all(state == BLOCKED for state in states.values())  # else it was pruned in between
        return LocalTransactionState.ROLLBACK if blocked else LocalTransactionState.UNKNOWN

    def _look(self, alias: str, transaction_id: str) -> str | None:
        with self._own_transaction(alias) as connection:
            return _table_on(connection).state(connection, transaction_id)

    def _block(self, alias: str, transaction_id: str) -> str | None:
        with self._own_transaction(alias) as connection:
            table = self._safe_table(connection)
            table.insert(connection, transaction_id, BLOCKED)
            return table.state(connection, transaction_id, newest=True)

    def _prune(self, alias: str, before: datetime) -> int:
        pruned = 0
        while True:
            with self._own_transaction(alias) as connection:
                found = _table_on(connection).aged(connection, before)
            pruned += self._delete(alias, found)
            if len(found) < PAGE:
                return pruned

    def _prune_page(self, alias: str, after: Any, before: datetime) -> Any:
        """See :data:`checkback.dbapi.pruning.Page`."""
        with self._own_transaction(alias) as connection:
            aged, last = _table_on(connection).page(connection, after, before)
        self._delete(alias, aged)
        return last

    def _delete(self, alias: str, keys: Sequence[Any]) -> int:
        with self._own_transaction(alias) as connection:
            return _table_on(connection).delete(connection, keys)

    def _safe_table(self, connection: Any) -> LogTable:
        table = _table_on(connection)
        if connection.alias not in self._safe and table.dialect.refuse_unsafe_table(connection, TABLE):
            self._safe.add(connection.alias)
        return table

    @contextmanager
    def _own_transaction(self, alias: str) -> Iterator[Any]:
        """A transaction of our own, committed at the end, with a time limit for locks."""
        connection = connection_of(alias)
        if connection.in_atomic_block:  # a TestCase's, which sees its own rows, and waits for nobody
            with transaction.atomic(using=alias):
                yield connection
            return
        connection.close_if_unusable_or_obsolete()
        with limited_waiting(connection, self._lock_timeout_ms), transaction.atomic(using=alias, durable=True):
            begin_to_look(connection, self._lock_timeout_ms)
            yield connection


def _table_on(connection: Any) -> LogTable:
    return LogTable(dialect_of(connection), TABLE)
