"""As :mod:`checkback.sql.transacting`, in asyncio. Needs the extra ``sql``, and ``sqlalchemy[asyncio]``."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)

from checkback.exceptions import ConfigurationError
from checkback.listener import HalfMessage
from checkback.producing.async_database_scope import AsyncDatabaseScope
from checkback.producing.asyncio_face import AsyncTransactionProducer
from checkback.producing.scope import End, begun
from checkback.sql.transacting import Recording, SqlWork, transactions_of

OneAsyncSession = TypeVar("OneAsyncSession", bound=AsyncSession)
T = TypeVar("T")


class AsyncSqlWork:
    """:class:`~checkback.sql.transacting.SqlWork` on what is below an asyncio session or connection."""

    def __init__(self, log: Recording, given: Any) -> None:
        self._log = log
        self._given = given
        self._opened: Any = None
        self._below: SqlWork | None = None

    @property
    def opened(self) -> Any:
        """The session or connection.

        Raises:
            CheckbackError: before entry.
        """
        return begun(self._opened, "with 'async with'")

    def refuse_running(self) -> None:
        """See :class:`~checkback.producing.database_scope.DatabaseWork`."""
        if isinstance(self._given, AsyncEngine):
            return
        ready = isinstance(self._given, AsyncConnection | AsyncSession)
        self._opened = self._given if ready else self._given()
        self._work().refuse_running()

    async def begin(self, transaction_id: str) -> None:
        """Likewise."""
        if isinstance(self._given, AsyncEngine):
            self._opened = await self._given.connect()
        await self._below_it(self._work().begin, transaction_id)

    async def finish(self) -> None:
        """Likewise."""
        await self._below_it(self._work().finish)

    async def commit(self) -> None:
        """Likewise."""
        await self._below_it(self._work().commit)

    async def undone(self, error: BaseException) -> bool:
        """Likewise."""
        return self._opened is None or await self._below_it(self._work().undone, error)

    async def close(self) -> None:
        """Likewise."""
        if isinstance(self._given, AsyncEngine | async_sessionmaker) and self._opened is not None:
            with suppress(SQLAlchemyError, OSError):
                await self._opened.close()

    def _work(self) -> SqlWork:
        if self._below is None:
            is_session = hasattr(self.opened, "sync_session")
            below = self.opened.sync_session if is_session else self.opened.sync_connection
            self._below = SqlWork(self._log, below)
        return self._below

    async def _below_it(self, step: Callable[..., T], *arguments: Any) -> T:
        return cast("T", await self.opened.run_sync(lambda _: step(*arguments)))


class AsyncConnectionScope(AsyncDatabaseScope):
    """A block in a transaction of a connection."""

    def __init__(
        self, producer: AsyncTransactionProducer, prepare: Callable[[], HalfMessage], end: End, work: AsyncSqlWork
    ) -> None:
        super().__init__(producer, prepare, end, work)
        self._opening = work

    @property
    def connection(self) -> AsyncConnection:
        """In the database transaction of the block; raises CheckbackError before entry."""
        return cast("AsyncConnection", self._opening.opened)


class AsyncSessionScope(AsyncDatabaseScope, Generic[OneAsyncSession]):
    """A block in a transaction of a session."""

    def __init__(
        self, producer: AsyncTransactionProducer, prepare: Callable[[], HalfMessage], end: End, work: AsyncSqlWork
    ) -> None:
        super().__init__(producer, prepare, end, work)
        self._opening = work

    @property
    def session(self) -> OneAsyncSession:
        """In the database transaction of the block; raises CheckbackError before entry."""
        return cast("OneAsyncSession", self._opening.opened)


class AsyncConnectionTransactions:
    """For ``producer.transaction(..., database=...)``: transactions of an engine's connections, or of one of them."""

    def __init__(self, log: Recording, given: AsyncEngine | AsyncConnection) -> None:
        self._work = partial(AsyncSqlWork, log, given)

    def scope(
        self, producer: AsyncTransactionProducer, prepare: Callable[[], HalfMessage], end: End
    ) -> AsyncConnectionScope:
        """The block of one transaction, on a connection of its own where there is an engine."""
        return AsyncConnectionScope(producer, prepare, end, self._work())


class AsyncSessionTransactions(Generic[OneAsyncSession]):
    """Transactions of the sessions that an async_sessionmaker makes, or of one session; likewise."""

    def __init__(
        self,
        log: Recording,
        given: "async_sessionmaker[OneAsyncSession] | async_scoped_session[OneAsyncSession] | OneAsyncSession",
    ) -> None:
        self._work = partial(AsyncSqlWork, log, given)

    def scope(
        self, producer: AsyncTransactionProducer, prepare: Callable[[], HalfMessage], end: End
    ) -> AsyncSessionScope[OneAsyncSession]:
        """The block of one transaction, in a session of its own where there is an async_sessionmaker."""
        return AsyncSessionScope(producer, prepare, end, self._work())


def async_transactions_of(log: Recording, given: Any) -> Any:
    """Of whatever ``SqlTransactionLog.of`` takes."""
    if isinstance(given, AsyncEngine | AsyncConnection):
        return AsyncConnectionTransactions(log, given)
    if isinstance(given, async_sessionmaker | async_scoped_session | AsyncSession):
        return AsyncSessionTransactions(log, given)
    return transactions_of(log, given)


async def run_below(engine: AsyncEngine, step: Callable[..., T], *arguments: Any) -> T:
    """Run what works with ``engine.sync_engine``; a session opens no connection by itself."""
    async with AsyncSession(engine) as session:
        return await session.run_sync(lambda _: step(*arguments))


def run_in_own_loop(engine: AsyncEngine, step: Callable[[Engine], T]) -> T:
    """Run what works with an engine, from a thread, on connections of its own.

    The engine's own belong to the loop that has opened them, which may be busy, and need not be the endpoint's.

    Raises:
        ConfigurationError: there is a loop in this thread, which would stand still meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_with_own_pool(engine.sync_engine, step))
    raise ConfigurationError(
        "check_local_transaction is for a thread, as check endpoints call it: in a coroutine, await "
        "asyncio.to_thread(log.check_local_transaction, request)."
    )


async def _with_own_pool(engine: Engine, step: Callable[[Engine], T]) -> T:
    # what the application has set when it made its engine, and its "connect" events, are the pool's
    own = Engine(engine.pool.recreate(), engine.dialect, engine.url, execution_options=engine.get_execution_options())
    try:
        return await run_below(AsyncEngine(own), step, own)
    finally:
        await AsyncEngine(own).dispose()
