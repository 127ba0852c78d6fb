"""The transaction log on Django's own connections: table and promise of ``SqlTransactionLog``, without SQLAlchemy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DEFAULT_DB_ALIAS, Error, transaction

from checkback.django.databases import (
    busy_timeout,
    connection_of,
    is_lock_timeout,
    moment,
    refuse_inside,
    table_of,
)
from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    DuplicateTransactionError,
    TransactionBlockedError,
)
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest

TABLE = "checkback_transactions"
COMMITTED, BLOCKED = "committed", "blocked"


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
            (3 s).
    """

    def __init__(self, databases: Sequence[str] = (DEFAULT_DB_ALIAS,), *, lock_timeout_ms: int = 1_000) -> None:
        if lock_timeout_ms < 1:
            raise ConfigurationError(
                f"lock_timeout_ms is {lock_timeout_ms}, must be at least 1: 0 would wait for ever."
            )
        self.databases = tuple(databases)
        self._lock_timeout_ms = lock_timeout_ms

    def record(self, transaction_id: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        """Write into the ``atomic`` around the call that this local transaction commits, if it does; call it first.

        ``transactional`` does. Do not swallow its errors, and do not call it in an ``atomic`` inside another one.

        Raises:
            TransactionBlockedError: a check has answered *rollback* already.
            DuplicateTransactionError: the id is recorded already.
            ConfigurationError: there is no ``atomic``, or checks do not ask this database; nothing was written.
        """
        self.refuse_unknown(using)
        connection = connection_of(using)
        if not connection.in_atomic_block:
            raise ConfigurationError(
                f"record() belongs inside 'with transaction.atomic(using={using!r}, durable=True)': outside, the row "
                "would be committed by itself. transactional() does it all."
            )
        with connection.cursor() as cursor:
            if _insert(connection, cursor, transaction_id, COMMITTED):
                return
            state = _state(connection, cursor, transaction_id)
        if state == COMMITTED:
            raise DuplicateTransactionError(
                f"Transaction {transaction_id} is recorded already, so its local transaction has run before: "
                "roll this one back."
            )
        raise TransactionBlockedError(
            f"Transaction {transaction_id} came too late: a check has answered 'rollback' for it. Roll back; "
            "to do the work after all, send a new message."
        )

    def refuse_lost(self, transaction_id: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        """Make sure, last in the ``atomic``, that the COMMIT to come will commit the row.

        A failed statement whose error the application has swallowed ends PostgreSQL's transaction, and COMMIT then
        rolls back without an error; a ROLLBACK of the application's own takes the row away. One look finds both.

        Raises:
            CheckbackError: it would not.
            django.db.Error: likewise; PostgreSQL takes no statement any more.
        """
        connection = connection_of(using)
        with connection.cursor() as cursor:
            if _state(connection, cursor, transaction_id) == COMMITTED:
                return
        raise CheckbackError(
            f"The database transaction of {transaction_id} was ended inside the block, by a ROLLBACK or COMMIT that is "
            "not Django's: what came after it is rolled back. Leave both to transactional()."
        )

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction.

        1. Look the id up in each database: committed in one of them is answered with *commit*.
        2. Where it is not, block it, so that it can never commit there any more. Blocked in all of them: *rollback*.
           When it is running, wait for its end; *unknown* after ``lock_timeout_ms``.

        Raises:
            django.db.Error: a database failed. An endpoint answers that with *unknown*.
            ConfigurationError: it is called inside an ``atomic``: what it blocks must be committed when it answers.
        """
        asked = request.transaction_id
        try:
            states = {alias: self._look(alias, asked) for alias in self.databases}  # 1
            if COMMITTED in states.values():
                return LocalTransactionState.COMMIT
            # Transactions apart from the first: SQLite lets none write that has read what is no longer the newest.
            states = {alias: state or self._block(alias, asked) for alias, state in states.items()}  # 2
        except Error as error:
            if is_lock_timeout(error):
                return LocalTransactionState.UNKNOWN
            raise
        if COMMITTED in states.values():
            return LocalTransactionState.COMMIT
        blocked = all(state == BLOCKED for state in states.values())  # else it was pruned in between
        return LocalTransactionState.ROLLBACK if blocked else LocalTransactionState.UNKNOWN

    def prune(self, older_than: timedelta) -> int:
        """Delete rows of that age, in one statement for each database; returns their number. Nothing else deletes one.

        A transaction that is checked after its row is deleted is rolled back although it has committed: 30 days are
        enough for the job's default settings, ``docs/transaction-log.md`` says what counts.

        Raises:
            ConfigurationError: ``older_than`` is not above zero.
        """
        if older_than <= timedelta(0):
            raise ConfigurationError(f"older_than is {older_than}, must be longer than the job's age limit.")
        return sum(_prune(connection_of(alias), datetime.now(UTC) - older_than) for alias in self.databases)

    def refuse_unknown(self, using: str) -> None:
        """Raises ConfigurationError where checks do not ask this database, and would roll back what it commits."""
        if using not in self.databases:
            raise ConfigurationError(
                f"Checks do not ask database {using!r}: add it to CHECKBACK['DATABASES'] in settings.py, which has "
                f"{', '.join(self.databases)}."
            )

    def _look(self, alias: str, transaction_id: str) -> str | None:
        with self._own_transaction(alias) as (connection, cursor):
            return _state(connection, cursor, transaction_id)

    def _block(self, alias: str, transaction_id: str) -> str | None:
        with self._own_transaction(alias) as (connection, cursor):
            _insert(connection, cursor, transaction_id, BLOCKED)
            return _state(connection, cursor, transaction_id)

    @contextmanager
    def _own_transaction(self, alias: str) -> Iterator[tuple[Any, Any]]:
        """A transaction of the check's own, committed at the end, with a time limit for locks."""
        connection = connection_of(alias)
        refuse_inside(connection, "check_local_transaction", "what it blocks must be committed when it answers.")
        if inside_test := connection.in_atomic_block:  # which sees its own rows, and waits for nobody
            limits: Any = nullcontext()
        else:
            connection.close_if_unusable_or_obsolete()
            sqlite = connection.vendor == "sqlite"
            limits = busy_timeout(connection, self._lock_timeout_ms) if sqlite else nullcontext()
        with limits, transaction.atomic(using=alias, durable=True), connection.cursor() as cursor:
            if connection.vendor == "postgresql" and not inside_test:
                # Whatever OPTIONS say: after the wait, the look must see what was committed meanwhile.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                cursor.execute(f"SET LOCAL lock_timeout = {self._lock_timeout_ms:d}")
            yield connection, cursor


def _insert(connection: Any, cursor: Any, transaction_id: str, state: str) -> bool:
    """Whether there was no row yet. Waits for a running transaction that has inserted one.

    A plain insert that fails would end PostgreSQL's transaction before we could look why.
    """
    cursor.execute(
        f"INSERT INTO {table_of(connection, TABLE)} (transaction_id, state, recorded_at) "  # noqa: S608  (a constant)
        "VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        [transaction_id, state, moment(connection, datetime.now(UTC))],
    )
    return bool(cursor.rowcount == 1)


def _state(connection: Any, cursor: Any, transaction_id: str) -> str | None:
    cursor.execute(
        f"SELECT state FROM {table_of(connection, TABLE)} WHERE transaction_id = %s",  # noqa: S608  (a constant)
        [transaction_id],
    )
    found = cursor.fetchone()
    return None if found is None else str(found[0])


def _prune(connection: Any, before: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {table_of(connection, TABLE)} WHERE recorded_at < %s",  # noqa: S608  (a constant)
            [moment(connection, before)],
        )
        return int(cursor.rowcount)
