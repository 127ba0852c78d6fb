"""The inbox: a table of the messages that a consumer's database has, so that each has its effect once.

The handler's own database transaction writes the message's id beside its effect; the same message again finds it there
and is passed over. Needs the extra ``sql`` (SQLAlchemy), and is therefore not in ``import checkback``: ``from
checkback.sql.inbox import SqlInbox``. What it makes of "at least once" is in ``docs/delivery.md``.
"""

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy import Connection, Engine, MetaData, Select, func, select
from sqlalchemy import inspect as look_at
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session

from checkback.consumer.listener import ConsumeResult, is_later
from checkback.consumer.metrics import Figures
from checkback.dbapi.states import aged, refuse_no_group
from checkback.exceptions import ConfigurationError
from checkback.sql import mysql, tables
from checkback.sql.commit_guard import insist_on_rows, refuse_inactive
from checkback.sql.database import insert_new, refuse_autocommit, refuse_others
from checkback.sql.handling import HandlerSession, Taken
from checkback.wire.message_id import message_id

if TYPE_CHECKING:  # importing it needs greenlet, which applications without asyncio do not have
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

    AnyEngine = Engine | AsyncEngine
    AsyncWork = AsyncConnection | AsyncSession

Work = Connection | Session | scoped_session[Session]
M = TypeVar("M")

_WORK = (Connection, Session, scoped_session)


class SqlInbox:
    """Remembers which messages a consumer group's handlers have dealt with, in the database in which they do.

    A row (group, message id) is written in the handler's own database transaction. So a message's effect and the
    memory of it are committed together or not at all, whatever process dies when; a message that comes again, after a
    crash, a rebalance or a producer's mistake, is passed over and counted. What the id is, says
    :func:`checkback.wire.message_id.message_id`. One instance serves all threads.

    Only what the database transaction does happens once. An e-mail that the handler sends may go out twice.

    Args:
        engine: of PostgreSQL, MySQL, MariaDB or SQLite; :meth:`create`, :meth:`prune` and :meth:`handler` take
            connections of it. An ``AsyncEngine`` has ``create_async``, ``prune_async``, and coroutines as handlers.
        group: the consumer group. Several may share a table: each has an effect of its own.
        table: the table's name.
        metadata: of the application's own tables, where Alembic is to find this one, too.

    Raises:
        ConfigurationError: the database is another one, or this cannot be a consumer group.
    """

    def __init__(
        self,
        engine: "AnyEngine",
        group: str,
        *,
        table: str = "checkback_inbox",
        metadata: MetaData | None = None,
    ) -> None:
        refuse_others(
            engine.dialect.name, "inbox", "give the handler's own table a unique column with the message's id."
        )
        refuse_no_group(group)
        self._engine = engine
        self._group = group
        self._counting = threading.Lock()
        self._passed_over = 0
        self.table = tables.inbox_table(table, MetaData() if metadata is None else metadata)
        self._table_is_safe = engine.dialect.name not in mysql.NAMES
        """Whether it has been looked at, once for each process."""

    @property
    def passed_over(self) -> int:
        """How many messages this process has passed over, since their effect was there."""
        return self._passed_over

    def figures(self) -> Figures:
        """The same with the group, for :func:`checkback.consumer.collector_of`."""
        return Figures(self._group, passed_over=self._passed_over)

    def ddl(self) -> str:
        """The statements that make the table, for a migration; :meth:`create` runs them."""
        return tables.ddl(self.table, self._engine.dialect)

    def create(self) -> None:
        """Make the table unless it is there. Several processes may do so at once."""
        engine = self._sync_engine("create_async")
        try:
            with engine.begin() as connection:
                tables.create(connection, self.table)
        except DBAPIError:
            # PostgreSQL's IF NOT EXISTS fails when another process makes the table at the same moment.
            if not look_at(engine).has_table(self.table.name):
                raise

    async def create_async(self) -> None:
        """Likewise, with an ``AsyncEngine``."""
        engine = self._async_engine("create")
        try:
            async with engine.begin() as connection:
                await connection.run_sync(tables.create, self.table)
        except DBAPIError:
            async with engine.connect() as connection:
                if not await connection.run_sync(lambda sync: look_at(sync).has_table(self.table.name)):
                    raise

    @overload
    def once(self, connection: Work, message: Any) -> AbstractContextManager[bool]: ...
    @overload
    def once(self, connection: "AsyncWork", message: Any) -> AbstractAsyncContextManager[bool]: ...
    def once(
        self, connection: "Work | AsyncWork", message: Any
    ) -> AbstractContextManager[bool] | AbstractAsyncContextManager[bool]:
        """Note in the caller's database transaction that a message is dealt with; whether that is new.

        ::

            with Session(engine) as session, session.begin(), inbox.once(session, message) as first:
                if first:
                    session.add(...)

        1. Writes the row. While another transaction has written the same row and is still running, PostgreSQL waits for
           its end: its commit makes this one no first, its rollback leaves this one the first.
        2. Runs the block. An error in it rolls the whole database transaction back, also when somebody handles the
           error before it reaches the transaction's own block: row and effect are gone together.
        3. What is committed, the caller decides. A listener that says *later* must not commit: raise instead, or the
           message passes for done when it comes again.

        Call it first in the database transaction: SQLite lets none write that has read what is no longer the newest.
        Under PostgreSQL's REPEATABLE READ and SERIALIZABLE a row that another transaction has committed meanwhile is a
        serialization failure (SQLSTATE 40001); the message comes again, and is passed over.

        Args:
            connection: in whose transaction the handler works; of asyncio it is ``async with``.
            message: as the consumer got it, or its id as text.

        Raises:
            ConfigurationError: the connection commits each statement by itself; nothing was written.
            TypeError: this is not a message.
            RecordLostError: at the end of the block, or of the transaction: it was undone after an error that was
                handled inside.
        """
        if isinstance(connection, _WORK):
            return self._once(connection, message)
        return self._once_async(connection, message)

    @overload
    def once_each(self, connection: Work, messages: Sequence[M]) -> AbstractContextManager[list[M]]: ...
    @overload
    def once_each(self, connection: "AsyncWork", messages: Sequence[M]) -> AbstractAsyncContextManager[list[M]]: ...
    def once_each(
        self, connection: "Work | AsyncWork", messages: Sequence[M]
    ) -> AbstractContextManager[list[M]] | AbstractAsyncContextManager[list[M]]:
        """Likewise for several messages with one statement; gives those that are new, in their order, each once."""
        if isinstance(connection, _WORK):
            return self._each(connection, messages)
        return self._each_async(connection, messages)

    @overload
    def handler(
        self, handle: Callable[["AsyncSession", M], Awaitable[ConsumeResult | None]]
    ) -> Callable[[M], Awaitable[ConsumeResult]]: ...
    @overload
    def handler(self, handle: Callable[[Session, M], ConsumeResult | None]) -> Callable[[M], ConsumeResult]: ...
    def handler(self, handle: Callable[[Any, M], Any]) -> Callable[[M], Any]:
        """Make a listener of a function that gets a session and a message, and works in the session's transaction.

        ::

            @inbox.handler
            def give_points(session, message):
                session.execute(...)

        The transaction is the listener's: rolled back when the function raises or returns *later*, committed
        otherwise, which is *success*. A message that is in already does not reach the function, and is *success*. With
        an ``AsyncEngine`` the function is a coroutine and gets an ``AsyncSession``; the listener is a coroutine, too.
        The listener raises TypeError, and nothing is committed, when the function returns anything else than a
        :class:`ConsumeResult` or None: a generator or a coroutine would be a function that never ran. ``commit()``
        inside the function raises ConfigurationError: what came before it would be kept with the memory of the message,
        and what comes after it never be done if the function failed. Savepoints and ``rollback()`` are allowed; what
        the function does after a ``rollback()`` has its effect once as well.

        Raises:
            ConfigurationError: a coroutine with an engine that is none of asyncio's, or the other way round.
        """
        if inspect.iscoroutinefunction(handle):
            return self._async_handler(handle)
        engine = self._sync_engine("an 'async def'")

        @functools.wraps(handle)
        def handled(message: M) -> ConsumeResult:
            with HandlerSession(engine) as session, self._once(session, message) as first:
                if first:
                    with session.given_away():
                        later = is_later(handle(session, message))
                    if later:
                        return ConsumeResult.LATER
                    self._take_again(session, message)
                session.commit()
                return ConsumeResult.SUCCESS

        return handled

    def prune(self, older_than: timedelta, *, batch: int = 1_000) -> int:
        """Delete this group's rows of that age; returns their number. Nothing else ever deletes one.

        Each ``batch`` rows are a transaction of their own, so that it holds up nobody for long; several processes may
        prune at once. A message that comes again after its row was deleted has its effect again. So ``older_than`` must
        be longer than anything may bring a message back: the retention of the topic, where groups are rolled back by
        hand, and of ``cb.half`` (12 days), from which a job on a new checkpoint delivers again. Ages are by the clocks
        of the processes that receive and prune.

        Raises:
            ConfigurationError: ``older_than`` or ``batch`` is not above zero.
        """
        engine = self._sync_engine("prune_async")
        before = aged(older_than, batch)
        pruned, deleted = 0, batch
        while deleted == batch:
            with engine.begin() as connection:
                deleted = self._prune_batch(connection, before, batch)
            pruned += deleted
        return pruned

    async def prune_async(self, older_than: timedelta, *, batch: int = 1_000) -> int:
        """Likewise, with an ``AsyncEngine``."""
        engine = self._async_engine("prune")
        before = aged(older_than, batch)
        pruned, deleted = 0, batch
        while deleted == batch:
            async with engine.begin() as connection:
                deleted = await connection.run_sync(self._prune_batch, before, batch)
            pruned += deleted
        return pruned

    @contextmanager
    def _once(self, connection: Work, message: Any) -> Iterator[bool]:
        with self._each(connection, [message]) as new:
            yield bool(new)

    @asynccontextmanager
    async def _once_async(self, connection: "AsyncWork", message: Any) -> AsyncIterator[bool]:
        async with self._each_async(connection, [message]) as new:
            yield bool(new)

    @contextmanager
    def _each(self, connection: Work, messages: Sequence[M]) -> Iterator[list[M]]:
        try:
            taken = self._take(connection, messages)
            yield taken.messages
            work = connection() if isinstance(connection, scoped_session) else connection
            refuse_inactive(work.get_transaction())
            if not isinstance(work, HandlerSession):  # which takes them again after a rollback()
                taken.refuse_lost()
        except BaseException:
            connection.rollback()
            raise

    @asynccontextmanager
    async def _each_async(self, connection: "AsyncWork", messages: Sequence[M]) -> AsyncIterator[list[M]]:
        try:
            taken = await connection.run_sync(self._take, messages)
            yield taken.messages
            below = await connection.run_sync(lambda work: work)
            refuse_inactive(below.get_transaction())
            if not isinstance(below, HandlerSession):
                taken.refuse_lost()
        except BaseException:
            await connection.rollback()
            raise

    def _take(self, connection: Work, messages: Sequence[M]) -> Taken[M]:
        """Those of the messages that were not in, and are now."""
        if not isinstance(connection, Connection):
            connection = connection.connection()
        refuse_autocommit(connection, "the handler's transaction")
        if not self._table_is_safe:
            self._table_is_safe = mysql.refuse_unsafe_table(connection, self.table)
        named: dict[str, M] = {}
        for message in messages:
            named.setdefault(message_id(message), message)
        if not named:
            return Taken([])
        now = datetime.now(UTC)
        # in one order: two transactions that wait for each other's rows would be a deadlock
        rows = [{"consumer_group": self._group, "message_id": name, "received_at": now} for name in sorted(named)]
        new = insert_new(connection, self.table, rows, self.table.c.message_id)
        expected = None
        if new:
            expected = insist_on_rows(connection, self._number_of(new), len(new))
            expected.written = True
        with self._counting:
            self._passed_over += len(messages) - len(new)
        return Taken([message for name, message in named.items() if name in new], connection, expected)

    def _number_of(self, names: set[str]) -> Select[int]:
        columns = self.table.c
        ours = (columns.consumer_group == self._group, columns.message_id.in_(names))
        return select(func.count()).select_from(self.table).where(*ours)

    def _async_handler(
        self, handle: Callable[["AsyncSession", M], Awaitable[Any]]
    ) -> Callable[[M], Awaitable[ConsumeResult]]:
        from sqlalchemy.ext.asyncio import AsyncSession  # noqa: PLC0415  (it needs greenlet)

        engine = self._async_engine("a plain 'def'")

        @functools.wraps(handle)
        async def handled(message: M) -> ConsumeResult:
            async with (
                AsyncSession(engine, sync_session_class=HandlerSession) as session,
                self._once_async(session, message) as first,
            ):
                if first:
                    guarded: Any = session.sync_session
                    with guarded.given_away():
                        later = is_later(await handle(session, message))
                    if later:
                        return ConsumeResult.LATER
                    await session.run_sync(self._take_again, message)
                await session.commit()
                return ConsumeResult.SUCCESS

        return handled

    def _take_again(self, session: Any, message: Any) -> None:
        """Where the handler has rolled back, the note of the message is gone: write it beside what was done since."""
        if session.was_rolled_back and not self._take(session, [message]).messages:
            session.rollback()  # another process has done it meanwhile

    def _prune_batch(self, connection: Connection, before: datetime, batch: int) -> int:
        return tables.prune_batch(connection, self.table, self._group, before, batch)

    def _sync_engine(self, instead: str) -> Engine:
        if not isinstance(self._engine, Engine):
            raise ConfigurationError(f"The inbox was given an AsyncEngine: use {instead}.")
        return self._engine

    def _async_engine(self, instead: str) -> "AsyncEngine":
        if isinstance(self._engine, Engine):
            raise ConfigurationError(f"The inbox was given an Engine that is not asyncio's: use {instead}.")
        return self._engine
