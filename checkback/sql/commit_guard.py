"""A transaction may reach its commit without what was recorded in it; it does not commit then. Needs the extra ``sql``.

That is where the application has handled an error that the database has not forgotten. PostgreSQL refuses everything
after an error, and at COMMIT rolls back without a word. InnoDB undoes the one statement (a lock waited for in vain,
1205) or silently begins another transaction (a deadlock, 1213). SQLite may roll back all (a full disk, a trigger's
RAISE). And a savepoint may be rolled back alone.
"""

import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, event
from sqlalchemy.engine import Transaction, TwoPhaseTransaction
from sqlalchemy.engine.util import TransactionalContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from checkback.exceptions import RecordLostError

_RUNNING, _FAILED = 2, 3  # libpq's PQTRANS_INTRANS and PQTRANS_INERROR
_FAILED_STATE = "25P02"  # of PostgreSQL, to whatever is asked in a failed transaction


@dataclass
class ExpectedRows:
    """Rows that a transaction must have when it commits."""

    count: Select[int]
    wanted: int
    in_savepoint: bool
    written: bool = False
    """Whether the statement that writes them has succeeded."""
    committed: bool = False
    """Whether the database has answered the COMMIT."""


@dataclass
class _Kept:
    transaction: "weakref.ref[Transaction]"  # weak, since it holds the connection, which this is kept by
    rows: list[ExpectedRows] = field(default_factory=list)


_KEPT: "weakref.WeakKeyDictionary[Connection, _Kept]" = weakref.WeakKeyDictionary()


def insist_on_rows(connection: Connection, count: Select[int], wanted: int) -> ExpectedRows:
    """The connection's transaction does not commit unless the count comes to that then, but raises RecordLostError.

    It sees the transaction's own rows, and these stay locked until it has committed: nothing comes between. That is one
    round trip for each commit; none on PostgreSQL where the driver keeps the transaction's state (psycopg), and the
    rows were ``written`` outside a savepoint.
    """
    transaction = connection.get_transaction() or connection.begin()
    kept = _KEPT.get(connection)
    if kept is None:
        event.listen(connection, "commit", _look)
        _tell_of_commits(connection)
    if kept is None or kept.transaction() is not transaction:
        kept = _KEPT[connection] = _Kept(weakref.ref(transaction))
    kept.rows.append(ExpectedRows(count, wanted, connection.in_nested_transaction()))
    return kept.rows[-1]


def _look(connection: Connection) -> None:
    kept = _KEPT.get(connection)
    if kept is None or kept.transaction() is not connection.get_transaction():
        return
    try:
        lost = _has_lost(connection, kept.rows)
    except BaseException as error:
        if isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == _FAILED_STATE:
            raise _lost() from error
        raise
    if lost:
        raise _lost()


def _tell_of_commits(connection: Connection) -> None:
    """Rows are committed when COMMIT has been answered; SQLAlchemy's event comes before it is sent.

    What has not been committed is rolled back, or the pool's next user would commit it.
    """
    weak = weakref.ref(connection)

    def commit_impl() -> None:
        ours: Any = weak()
        try:
            type(ours)._commit_impl(ours)  # noqa: SLF001  (there is no event that comes after)
        except BaseException as error:
            if not ours.invalidated:  # SQLite goes on after a COMMIT that it refused, which nobody would end
                try:
                    ours.connection.rollback()
                except Exception:  # noqa: BLE001  (of whatever driver: it must not hide what has gone wrong)
                    ours.invalidate(error)
            raise
        kept = _KEPT.get(ours)
        if kept is not None and kept.transaction() is ours.get_transaction():
            for one in kept.rows:
                one.committed = True

    connection._commit_impl = commit_impl  # type: ignore[method-assign]  # noqa: SLF001  (see above)


def hears_commit(connection: Connection) -> bool:
    """Whether a commit of the connection's transaction is all that can commit the rows.

    Not so in a savepoint, which tests of applications have around each of their transactions, nor in two phases.
    """
    return not connection.in_nested_transaction() and not isinstance(connection.get_transaction(), TwoPhaseTransaction)


def _has_lost(connection: Connection, rows: list[ExpectedRows]) -> bool:
    state = None
    if connection.dialect.name == "postgresql":  # psycopg and psycopg2 have heard it from the server; asyncpg hides it
        state = getattr(getattr(connection.connection.driver_connection, "info", None), "transaction_status", None)
    if state == _FAILED:
        return True
    uncertain = [one for one in rows if state != _RUNNING or one.in_savepoint or not one.written]
    return any(connection.scalar(one.count) != one.wanted for one in uncertain)


def refuse_inactive(transaction: Any) -> None:
    """Make sure that a transaction, of a connection or a session, is not one that SQLAlchemy would close in silence.

    It has rolled back after an error, of a flush above all, and waits to be told that the application knows. At the end
    of ``with session.begin()`` it is closed without a commit and without a word.

    Raises:
        RecordLostError: it is.
    """
    if transaction is not None and not transaction.is_active:
        raise RecordLostError(
            "Nothing will be committed: SQLAlchemy has rolled the transaction back after an error (of a flush, "
            "say) that was handled inside. Run all of it again; an error inside must end the transaction, or the "
            "savepoint (begin_nested) around it."
        )


_HEARD: "weakref.WeakSet[Session]" = weakref.WeakSet()


def insist_on_commit(session: Session) -> None:
    """The end of ``with session.begin()`` commits the session's transaction, or raises SQLAlchemy's own error.

    Left to itself it closes one that was rolled back inside without a word, so that who sends a message around it
    believes that it was committed.
    """
    transaction: Any = session.get_transaction()
    if session not in _HEARD:
        event.listen(session, "after_commit", _note_commit)
        _HEARD.add(session)
    asked = transaction._transaction_is_active  # noqa: SLF001  (see below)

    def is_active() -> bool:
        if sys._getframe(1).f_code is _LEAVING:  # noqa: SLF001  (see below)
            return transaction not in _COMMITTED
        return bool(asked())

    # no public way: SQLAlchemy asks this whether to commit at the end, or to close in silence; and before each
    # statement, whether the block still has its transaction
    transaction._transaction_is_active = is_active  # noqa: SLF001  (see above)


_LEAVING = TransactionalContext.__exit__.__code__
_COMMITTED: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Transactions of sessions."""


def _note_commit(session: Session) -> None:
    if not session.in_nested_transaction():
        _COMMITTED.add(session.get_transaction())


def _lost() -> RecordLostError:
    return RecordLostError(
        "The transaction was not committed, since what was recorded in it is gone: the database has undone it, after "
        "an error that was handled inside, a deadlock or a lock time-out, or a savepoint was rolled back. Run all of "
        "it again; an error inside a transaction must end it, or the savepoint around it."
    )
