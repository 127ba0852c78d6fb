"""A plain connection's transactions as local transactions: what ``DbapiTransactionLog.of`` gives."""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from checkback.dbapi.databases import DbapiConnection, dialect_of
from checkback.exceptions import ConfigurationError
from checkback.listener import HalfMessage
from checkback.producing.database_scope import DatabaseScope
from checkback.producing.scope import End, begun

C = TypeVar("C", bound=DbapiConnection)


class DbapiLog(Protocol[C]):
    """What this needs of a transaction log."""

    @property
    def connect(self) -> Callable[[], C]:
        """Opens a connection."""

    def record(self, connection: C, transaction_id: str) -> None:
        """Write the id into the transaction."""

    def refuse_lost(self, connection: C, transaction_id: str) -> None:
        """Make sure that it is there."""

    def has_committed(self, connection: C, transaction_id: str) -> bool:
        """Whether it is."""


class DbapiWork(Generic[C]):
    """A database transaction; see :class:`~checkback.producing.database_scope.DatabaseWork`."""

    def __init__(self, log: DbapiLog[C], given: C | None) -> None:
        self._log = log
        self._given = given
        self._opened = given
        self._id: str | None = None
        self._is_recorded = False

    @property
    def opened(self) -> C:
        """The connection.

        Raises:
            CheckbackError: before entry.
        """
        return begun(self._opened)

    def refuse_running(self) -> None:
        """As far as the driver says so; of sqlite3's ``autocommit=False`` one cannot see it."""
        if self._given is not None and dialect_of(self._given).in_transaction(self._given):
            raise ConfigurationError(
                "This connection is in a database transaction already (a query begins one, too), so the message would "
                "be committed before the database is. Call commit() or rollback() before 'with "
                "producer.transaction(...)', or give log.of() no connection: the block begins the database transaction "
                "itself, and commits it."
            )

    def begin(self, transaction_id: str) -> None:
        """Also on a connection that is in autocommit mode."""
        if self._opened is None:
            self._opened = self._log.connect()
        dialect_of(self._opened).begin(self._opened)
        self._id = transaction_id
        self._log.record(self._opened, transaction_id)
        self._is_recorded = True

    def finish(self) -> None:
        """Raises RecordLostError where the block has called rollback()."""
        self._log.refuse_lost(self.opened, self._id or "")

    def commit(self) -> None:
        """Nothing is left to do where the block has committed itself."""
        self.opened.commit()

    def undone(self, error: BaseException) -> bool:
        """The record tells, looked for on the same connection: it must be seen before the rollback, and not after it.

        Where it is not seen before, a COMMIT may have been sent that still arrives, or the driver has connected again.
        """
        if self._opened is None or self._id is None:
            return True
        try:
            seen = not self._is_recorded or self._sees_record()
            self._opened.rollback()
            gone = isinstance(error, Exception) and not self._log.has_committed(self._opened, self._id)
            self._opened.rollback()
        except Exception:  # noqa: BLE001  (of whatever driver: it is lost, and the check decides)
            return False
        return seen and gone

    def _sees_record(self) -> bool:
        try:
            return self._log.has_committed(self.opened, self._id or "")
        except Exception:  # noqa: BLE001  (of whatever driver; PostgreSQL takes no statement after an error)
            return False

    def close(self) -> None:
        """Also a connection that is broken."""
        if self._given is None and self._opened is not None:
            with suppress(Exception):
                self._opened.close()


class DbapiScope(DatabaseScope, Generic[C]):
    """A block in a transaction of a connection."""

    def __init__(self, prepare: Callable[[], HalfMessage], end: End, work: DbapiWork[C]) -> None:
        super().__init__(prepare, end, work)
        self._opening = work

    @property
    def connection(self) -> C:
        """In the database transaction of the block; raises CheckbackError before entry."""
        return self._opening.opened


class DbapiTransactions(Generic[C]):
    """For ``producer.transaction(..., database=...)``: transactions of connections that are opened, or of one."""

    def __init__(self, log: DbapiLog[C], given: C | None) -> None:
        self._log = log
        self._given = given

    def scope(self, prepare: Callable[[], HalfMessage], end: End) -> DbapiScope[C]:
        """The block of one transaction."""
        return DbapiScope(prepare, end, DbapiWork(self._log, self._given))
