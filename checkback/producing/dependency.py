"""Transactions for endpoints of FastAPI: what ``Depends`` takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Generic, Protocol, TypeVar

from checkback.exceptions import ProducerClosedError
from checkback.producing.asyncio_face import AsyncTransactionDatabase, AsyncTransactionProducer, AsyncTransactionScope
from checkback.producing.blocks import Described
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import TransactionOptions

S = TypeVar("S", bound=AsyncTransactionScope)
S_co = TypeVar("S_co", bound=AsyncTransactionScope, covariant=True)


class BeginTransaction(Protocol[S_co]):
    """``async with begin(message) as transaction: ...``: message and database transaction in one block."""

    def __call__(self, message: Described, *, options: TransactionOptions | None = None) -> S_co:
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
