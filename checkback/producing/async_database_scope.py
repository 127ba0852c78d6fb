"""As :mod:`checkback.producing.database_scope`, for ``async with``."""

import asyncio
from collections.abc import Callable
from typing import Protocol, Self

from checkback.exceptions import RecordLostError
from checkback.listener import HalfMessage
from checkback.producing.asyncio_face import AsyncTransactionProducer, AsyncTransactionScope
from checkback.producing.database_scope import Ending
from checkback.producing.scope import End, TransactionScope

_LEAVING: set["asyncio.Task[bool]"] = set()
"""The loop itself does not keep its tasks."""


class AsyncDatabaseWork(Protocol):
    """See :class:`~checkback.producing.database_scope.DatabaseWork`."""

    def refuse_running(self) -> None:
        """Likewise; asks nobody."""

    async def begin(self, transaction_id: str) -> None:
        """Likewise."""

    async def finish(self) -> None:
        """Likewise."""

    async def commit(self) -> None:
        """Likewise."""

    async def undone(self, error: BaseException) -> bool:
        """Likewise."""

    async def close(self) -> None:
        """Likewise."""


class AsyncDatabaseScope(AsyncTransactionScope):
    """As :class:`~checkback.producing.database_scope.DatabaseScope`, step by step.

    A task that is cancelled inside the block is rolled back, and the check decides. One that is cancelled while the
    block ends does not stop that: the database is committed or rolled back, and the op is written.
    """

    def __init__(
        self,
        producer: AsyncTransactionProducer,
        prepare: Callable[[], HalfMessage],
        end: End,
        work: AsyncDatabaseWork,
    ) -> None:
        self._ending = Ending(end)
        super().__init__(producer, TransactionScope(prepare, self._ending))
        self._work = work

    async def __aenter__(self) -> Self:
        """Steps 1 and 2; when they raise, the block does not run."""
        self._work.refuse_running()
        await super().__aenter__()  # 1
        try:
            await self._work.begin(self.transaction_id)  # 2
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> bool:
        """Steps 4 and 5; raises what the database does."""
        leaving = asyncio.create_task(self._left(error))
        _LEAVING.add(leaving)
        leaving.add_done_callback(_LEAVING.discard)
        return await asyncio.shield(leaving)

    async def _left(self, error: BaseException | None) -> bool:
        raised = await self._ended(error)
        goes_no_further = await super().__aexit__(type(raised) if raised else None, raised, None)
        if raised is not None and raised is not error and not goes_no_further:
            raise raised
        return goes_no_further

    async def _ended(self, error: BaseException | None) -> BaseException | None:
        committing = False
        try:
            if error is None:
                await self._work.finish()
                committing = True
                await self._work.commit()  # 4
        except BaseException as failed:  # noqa: BLE001  (it is raised when the op is written)
            error = failed
        if error is not None:
            certain = not committing or isinstance(error, RecordLostError)
            self._ending.undone = await self._work.undone(error) and certain
        await self._work.close()
        return error
