"""SQLAlchemy's transactions as local transactions: what ``SqlTransactionLog.of`` gives. Needs the extra ``sql``."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.listener import HalfMessage
from checkback.producing.database_scope import DatabaseScope
from checkback.producing.scope import End, Rollback, begun
from checkback.sql import mysql
from checkback.sql.commit_guard import refuse_inactive

OneSession = TypeVar("OneSession", bound=Session)


class Recording(Protocol):
    """What this needs of a transaction log."""

    def record(self, connection: Connection | Session, transaction_id: str) -> None:
        """Write the id into the transaction."""

    def has_committed(self, connection: Connection | Session, transaction_id: str) -> bool:
        """Whether the transaction sees the record."""


class SqlWork:
    """A database transaction; see :class:`~checkback.producing.database_scope.DatabaseWork`.

    Args:
        log: in which it is recorded.
        given: what opens a session or connection for it, or is one that has no transaction yet.
    """

    def __init__(self, log: Recording, given: Any) -> None:
        self._log = log
        self._given = given
        self._opened: Any = given if isinstance(given, Connection | Session) else None
        self._transaction: Any = None
        self._ended_inside = False
        self._recorded_on: Connection | None = None
        """Where the record was written, once it was."""
        self._hears_commit = self._commit_was_sent  # one object, to be taken away again
        self._sent = False

    @property
    def opened(self) -> Any:
        """The session or connection.

        Raises:
            CheckbackError: before entry.
        """
        return begun(self._opened)

    def refuse_running(self) -> None:
        """Also a session whose connection is in a transaction: its commit would commit nothing."""
        if isinstance(self._given, Engine):
            return  # its connection is opened when the half message is written: nobody is to wait for one meanwhile
        if self._opened is None:
            self._opened = self._given()
        running = self._opened.in_transaction()
        if isinstance(self._opened, Session):
            bound = self._opened.bind
            running = running or (isinstance(bound, Connection) and bound.in_transaction())
        if running:
            raise ConfigurationError(
                f"This {type(self._opened).__name__} is in a database transaction already (a query begins one, too), "
                "so the message would be committed before the database is. Call commit() or rollback() before "
                "'with producer.transaction(...)', or give log.of() the sessionmaker or the engine: the block begins "
                "the database transaction itself, and commits it."
            )

    def begin(self, transaction_id: str) -> None:
        """Its ``__enter__`` has SQLAlchemy refuse what comes after a commit() inside the block."""
        self._id = transaction_id
        if isinstance(self._given, Engine):
            self._opened = self._given.connect()
        self._transaction = self._opened.begin()
        self._transaction.__enter__()
        self._log.record(self._opened, transaction_id)
        self._recorded_on = self._opened.connection() if isinstance(self._opened, Session) else self._opened
        event.listen(self._recorded_on, "commit", self._hears_commit)

    def finish(self) -> None:
        """What only the flush before the commit finds is an error of the block.

        Raises:
            Rollback: the block has called rollback() itself.
            RecordLostError: the block has handled an error after which SQLAlchemy has rolled back.
            CheckbackError: the block has called commit(), and nobody knows whether that has arrived.
        """
        if self._opened.get_transaction() is not self._transaction:
            self._ended_inside = True
            self._leave(Rollback())
            if self._is_recorded():
                return  # by a commit() in the block, after which nothing came
            if self._sent:
                raise CheckbackError(
                    "commit() inside the block failed or was not answered, so a check has to find out whether the "
                    "database has committed: leave commit() to the block."
                )
            raise Rollback("the database transaction was rolled back inside the block")
        refuse_inactive(self._transaction)
        if isinstance(self._opened, Session):
            self._opened.flush()

    def commit(self) -> None:
        """Unless the block did."""
        if not self._ended_inside:
            refuse_inactive(self._transaction)
            self._transaction.__exit__(None, None, None)

    def undone(self, error: BaseException) -> bool:
        """The record tells, looked for in a new transaction; not asked when it may take long, or nobody would wait.

        That it is not there says nothing where a COMMIT was sent that may still arrive.
        """
        try:
            ours = self._is_ours()
            self._leave(error)
            lost = isinstance(error, DBAPIError) and error.connection_invalidated
            gone = isinstance(error, Exception) and not lost and not self._is_recorded()
        except (SQLAlchemyError, OSError):
            return False
        return ours and gone

    def close(self) -> None:
        """Also a connection that is broken."""
        if self._recorded_on is not None and event.contains(self._recorded_on, "commit", self._hears_commit):
            event.remove(self._recorded_on, "commit", self._hears_commit)
        if isinstance(self._given, Engine | sessionmaker) and self._opened is not None:
            with suppress(SQLAlchemyError, OSError):
                self._opened.close()

    def _commit_was_sent(self, _connection: Connection) -> None:
        self._sent = True

    def _is_ours(self) -> bool:
        """Whether what is rolled back now is the transaction with the record, of which no COMMIT was sent.

        MySQL also commits by itself, at DDL, which nobody hears: there the record must be seen once more before.
        """
        if self._recorded_on is None:
            return True  # the block has not begun
        if self._sent:
            return False
        if self._recorded_on.dialect.name not in mysql.NAMES:
            return True
        try:
            return self._log.has_committed(self._recorded_on, self._id)
        except (SQLAlchemyError, OSError):  # rolled back, or lost: it is to be left all the same
            return False

    def _leave(self, error: BaseException) -> None:
        if self._transaction is not None:
            self._transaction.__exit__(type(error), error, None)

    def _is_recorded(self) -> bool:
        if self._transaction is None:
            return False
        try:
            return self._log.has_committed(self._opened, self._id)
        finally:
            self._opened.rollback()


class ConnectionScope(DatabaseScope):
    """A block in a transaction of a connection."""

    def __init__(self, prepare: Callable[[], HalfMessage], end: End, work: SqlWork) -> None:
        super().__init__(prepare, end, work)
        self._opening = work

    @property
    def connection(self) -> Connection:
        """In the database transaction of the block; raises CheckbackError before entry."""
        return cast("Connection", self._opening.opened)


class SessionScope(DatabaseScope, Generic[OneSession]):
    """A block in a transaction of a session."""

    def __init__(self, prepare: Callable[[], HalfMessage], end: End, work: SqlWork) -> None:
        super().__init__(prepare, end, work)
        self._opening = work

    @property
    def session(self) -> OneSession:
        """In the database transaction of the block; raises CheckbackError before entry."""
        return cast("OneSession", self._opening.opened)


class ConnectionTransactions:
    """For ``producer.transaction(..., database=...)``: transactions of an engine's connections, or of one of them."""

    def __init__(self, log: Recording, given: Engine | Connection) -> None:
        self._work = partial(SqlWork, log, given)

    def scope(self, prepare: Callable[[], HalfMessage], end: End) -> ConnectionScope:
        """The block of one transaction, on a connection of its own where there is an engine."""
        return ConnectionScope(prepare, end, self._work())


class SessionTransactions(Generic[OneSession]):
    """Transactions of the sessions that a sessionmaker makes, or of one session; likewise."""

    def __init__(
        self, log: Recording, given: "sessionmaker[OneSession] | scoped_session[OneSession] | OneSession"
    ) -> None:
        self._work = partial(SqlWork, log, given)

    def scope(self, prepare: Callable[[], HalfMessage], end: End) -> SessionScope[OneSession]:
        """The block of one transaction, in a session of its own where there is a sessionmaker."""
        return SessionScope(prepare, end, self._work())


def transactions_of(log: Recording, given: Any) -> Any:
    """Of whatever ``SqlTransactionLog.of`` takes.

    Raises:
        ConfigurationError: it is something else.
    """
    if isinstance(given, Engine | Connection):
        return ConnectionTransactions(log, given)
    if isinstance(given, sessionmaker | scoped_session | Session):
        return SessionTransactions(log, given)
    raise ConfigurationError(
        f"log.of() takes an engine, a connection, a sessionmaker or a session, not {type(given).__name__}."
    )
