"""The producer's asyncio face: the same names over the same client, whose waiting is done by threads.

With what ``Depends`` of FastAPI takes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from checkback.exceptions import ProducerClosedError
from checkback.listener import HalfMessage
from checkback.producing.blocks import Described
from checkback.producing.database_scope import refuse_no_database
from checkback.producing.producer import TransactionProducer
from checkback.producing.scope import WAIT_SECONDS, End, TransactionScope
from checkback.producing.several import Transaction
from checkback.wire.protocol import Message, TransactionOptions

_THREADS = 32

S = TypeVar("S", bound="AsyncTransactionScope")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")
BegunScope_co = TypeVar("BegunScope_co", bound="AsyncTransactionScope", covariant=True)


class AsyncTransactionDatabase(Protocol[S_co]):
    """What ``database=`` takes, made by ``of`` of a transaction log."""

    def scope(self, producer: "AsyncTransactionProducer", prepare: Callable[[], HalfMessage], end: End) -> S_co:
        """The block of one transaction."""


class AsyncTransactionProducer:
    """Wraps a :class:`~checkback.TransactionProducer`, which stays the caller's to close.

    At most ``threads`` half messages are on their way at once. A task that is cancelled while its half message is
    being written leaves it to the check.
    """

    def __init__(self, producer: TransactionProducer, *, threads: int = _THREADS) -> None:
        self.producer = producer
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="checkback-aio")

    async def send(self, message: Message, *, options: TransactionOptions | None = None) -> HalfMessage:
        """As :meth:`TransactionProducer.send`."""
        return await self.in_thread(partial(self.producer.send, message, options=options))

    async def send_later(
        self,
        message: Message,
        *,
        at: datetime | int | None = None,
        delay: timedelta | float | None = None,
    ) -> HalfMessage:
        """As :meth:`TransactionProducer.send_later`."""
        return await self.in_thread(partial(self.producer.send_later, message, at=at, delay=delay))

    async def prepare(self, message: Message, *, options: TransactionOptions | None = None) -> HalfMessage:
        """As :meth:`TransactionProducer.prepare`."""
        return await self.in_thread(partial(self.producer.prepare, message, options=options))

    async def commit(self, message: HalfMessage, remark: str = "") -> None:
        """As :meth:`TransactionProducer.commit`."""
        await self.in_thread(self.producer.commit, message, remark)

    async def rollback(self, message: HalfMessage, remark: str = "") -> None:
        """As :meth:`TransactionProducer.rollback`."""
        await self.in_thread(self.producer.rollback, message, remark)

    @overload
    def transaction(
        self, message: Described, *, options: TransactionOptions | None = None
    ) -> "AsyncTransactionScope": ...
    @overload
    def transaction(
        self, message: Described, *, database: "AsyncTransactionDatabase[S]", options: TransactionOptions | None = None
    ) -> S: ...
    def transaction(
        self,
        message: Described,
        *,
        database: "AsyncTransactionDatabase[Any] | None" = None,
        options: TransactionOptions | None = None,
    ) -> Any:
        """``async with producer.transaction(message) as transaction: ...``; as :meth:`TransactionProducer.transaction`.

        ``database`` is ``log.of(...)`` of an ``async_sessionmaker`` or an ``AsyncEngine``.
        """
        if database is None:
            return AsyncTransactionScope(self, self.producer.transaction(message, options=options))
        refuse_no_database(database)
        return database.scope(self, self.producer.preparing(message, options), self.producer.end)

    def begin(self, *, options: TransactionOptions | None = None) -> "AsyncTransaction":
        """``async with producer.begin().add(...).add(...) as transaction: ...``: several messages."""
        return AsyncTransaction(self, self.producer.begin(options=options))

    async def flush(self, seconds: float = 10.0) -> None:
        """As :meth:`TransactionProducer.flush`."""
        await self.in_thread(self.producer.flush, seconds)

    async def close(self) -> None:
        """Wait for what is under way. The wrapped producer is not closed."""
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run what may wait in one of the producer's threads."""
        try:
            under_way = asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))
        except RuntimeError as error:  # the threads have been shut down
            raise ProducerClosedError("This AsyncTransactionProducer is closed: make a new one.") from error
        return await under_way


class AsyncTransactionScope:
    """As :class:`~checkback.TransactionScope`, for ``async with``."""

    def __init__(self, producer: AsyncTransactionProducer, scope: TransactionScope) -> None:
        self._producer = producer
        self._scope = scope

    @property
    def message(self) -> HalfMessage:
        """The half message, which Kafka has; raises CheckbackError before entry."""
        return self._scope.message

    @property
    def transaction_id(self) -> str:
        """What the local transaction leaves in the database, so that a check finds it."""
        return self._scope.transaction_id

    async def delivered(self, seconds: float = WAIT_SECONDS) -> bool:
        """As :meth:`TransactionScope.delivered`."""
        return await self._producer.in_thread(self._scope.delivered, seconds)

    @property
    def left_to_job(self) -> bool:
        """As :attr:`TransactionScope.left_to_job`."""
        return self._scope.left_to_job

    async def __aenter__(self) -> Self:
        """Write the half message; when that raises, the block does not run."""
        await self._producer.in_thread(self._scope.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool:
        """Write the op; a cancelled task leaves the outcome unknown, as any exception but Rollback does."""
        return await asyncio.shield(self._producer.in_thread(self._scope.__exit__, kind, error, at))


class AsyncTransaction:
    """Several messages; made by :meth:`AsyncTransactionProducer.begin`."""

    def __init__(self, producer: AsyncTransactionProducer, transaction: Transaction) -> None:
        self._transaction = transaction
        self._scope = AsyncTransactionScope(producer, TransactionScope(transaction.prepare, producer.producer.end))

    def add(self, message: Message) -> Self:
        """Add a message. Nothing is written yet."""
        self._transaction.add(message)
        return self

    async def __aenter__(self) -> AsyncTransactionScope:
        return await self._scope.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> bool:
        return await self._scope.__aexit__(kind, error, at)


class BeginTransaction(Protocol[BegunScope_co]):
    """``async with begin(message) as transaction: ...``: message and database transaction in one block."""

    def __call__(self, message: Described, *, options: TransactionOptions | None = None) -> BegunScope_co:
        """As ``transaction`` of :class:`~checkback.AsyncTransactionProducer`, in the dependency's database."""


class TransactionDependency(Generic[S]):
    """A dependency of FastAPI that gives an endpoint a :class:`~checkback.BeginTransaction`.

    ::

        transactions = TransactionDependency(log.of(sessions))
        Begin = Annotated[BeginTransaction[AsyncSessionScope[AsyncSession]], Depends(transactions)]

        @app.post("/orders")
        async def order(begin: Begin) -> None:
            async with begin(Message("orders", body)) as transaction:
                transaction.session.add(Order())

    The block is the endpoint's own: a dependency with ``yield`` ends after the response, when it is too late to tell
    the customer that nothing was committed. A test gives another beginning with ``app.dependency_overrides``.
    """

    def __init__(self, database: AsyncTransactionDatabase[S]) -> None:
        self._database = database
        self._producer: AsyncTransactionProducer | None = None

    @asynccontextmanager
    async def serving(self, producer: TransactionProducer) -> AsyncIterator[None]:
        """Send with this producer, which stays the caller's to close: for the application's ``lifespan``."""
        async with AsyncTransactionProducer(producer) as made:
            self._producer = made
            try:
                yield
            finally:
                self._producer = None

    async def __call__(self) -> BeginTransaction[S]:
        """Called by FastAPI.

        Raises:
            ProducerClosedError: outside :meth:`serving`.
        """
        if self._producer is None:
            raise ProducerClosedError(
                "There is no producer: put 'async with transactions.serving(producer): yield' into the application's "
                "lifespan."
            )
        return partial(self._producer.transaction, database=self._database)
