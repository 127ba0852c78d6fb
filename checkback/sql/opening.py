"""``SqlTransactionLog.of``: where transactions are opened. Needs the extra ``sql``."""

from typing import TYPE_CHECKING, Any, overload

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from checkback.sql.transacting import (
    ConnectionTransactions,
    OneSession,
    Recording,
    SessionTransactions,
    transactions_of,
)

if TYPE_CHECKING:  # importing it needs greenlet, which applications without asyncio do not have
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, async_scoped_session, async_sessionmaker

    from checkback.sql.async_transacting import (
        AsyncConnectionTransactions,
        AsyncSessionTransactions,
        OneAsyncSession,
    )

_SYNC = (Engine, Connection, sessionmaker, scoped_session, Session)


class OpensTransactions(Recording):
    """What a transaction log has for producers."""

    @overload
    def of(self, given: "AsyncEngine | AsyncConnection") -> "AsyncConnectionTransactions": ...
    @overload
    def of(
        self, given: "async_sessionmaker[OneAsyncSession] | async_scoped_session[OneAsyncSession]"
    ) -> "AsyncSessionTransactions[OneAsyncSession]": ...
    @overload
    def of(self, given: "OneAsyncSession") -> "AsyncSessionTransactions[OneAsyncSession]": ...
    @overload
    def of(self, given: Engine | Connection) -> ConnectionTransactions: ...
    @overload
    def of(self, given: sessionmaker[OneSession] | scoped_session[OneSession]) -> SessionTransactions[OneSession]: ...
    @overload
    def of(self, given: OneSession) -> SessionTransactions[OneSession]: ...
    def of(self, given: Any) -> Any:
        """What ``producer.transaction(message, database=...)`` takes, to begin, record and commit in the right order.

        ::

            with producer.transaction(message, database=log.of(Session)) as transaction:
                transaction.session.add(Order(...))

        Args:
            given: an engine or a sessionmaker, of which each block has a connection or session of its own; or one of
                these that is in no database transaction. Of the log's database. What is asyncio's is for the asyncio
                face of the producer.

        Raises:
            ConfigurationError: it is something else.
        """
        if isinstance(given, _SYNC):
            return transactions_of(self, given)
        from checkback.sql.async_transacting import async_transactions_of  # noqa: PLC0415  (it needs greenlet)

        return async_transactions_of(self, given)
