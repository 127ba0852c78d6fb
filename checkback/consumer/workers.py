"""Who calls the listener: threads, or coroutines on an event loop."""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Protocol

from checkback.consumer.offsets.work import Parcel
from checkback.exceptions import ConsumerError

_LOGGER = logging.getLogger(__name__)


class Workers(Protocol):
    """Take parcels in their order, and call the listener with as many at once as the settings say."""

    def put(self, parcels: Sequence[Parcel]) -> None:
        """Parcels to be worked off; from any thread."""

    def replace_one(self) -> None:
        """One hangs: another takes its place."""

    def stop(self, seconds: float) -> None:
        """Begin nothing more; wait for those at work, for at most ``seconds``."""


class ThreadWorkers:
    """Threads. ``work_off`` calls the listener with one parcel, and never raises."""

    def __init__(self, count: int, work_off: Callable[[Parcel], None]) -> None:
        self._work_off = work_off
        self._parcels: SimpleQueue[Parcel | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        for _ in range(count):
            self.replace_one()

    def put(self, parcels: Sequence[Parcel]) -> None:
        """See :class:`Workers`."""
        for parcel in parcels:
            self._parcels.put(parcel)

    def replace_one(self) -> None:
        """See :class:`Workers`. The one that hangs ends when its listener does, or with the process."""
        thread = threading.Thread(target=self._run, name=f"checkback-listener-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, seconds: float) -> None:
        """See :class:`Workers`."""
        self._stopping = True
        with contextlib.suppress(Empty):
            while True:
                self._parcels.get_nowait()
        for _ in self._threads:
            self._parcels.put(None)
        deadline = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _run(self) -> None:
        take, work_off = self._parcels.get, self._work_off
        while not self._stopping:
            parcel = take()
            if parcel is None:
                return
            work_off(parcel)


class LoopWorkers:
    """Coroutines on the loop of the thread that makes this. ``work_off`` never raises but when it is cancelled."""

    def __init__(self, count: int, work_off: Callable[[Parcel], Awaitable[None]]) -> None:
        self._work_off = work_off
        self._loop = asyncio.get_running_loop()
        self._free = count
        self._parcels: deque[Parcel] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def put(self, parcels: Sequence[Parcel]) -> None:
        """See :class:`Workers`.

        Raises:
            ConsumerError: the loop was closed, so nobody would ever call the listener; also when there are no parcels.
        """
        if self._loop.is_closed() and not self._stopping:
            raise ConsumerError("The event loop was closed before the consumer: close it first, or use 'async with'.")
        if parcels:
            with contextlib.suppress(RuntimeError):  # closed this moment: the next round says so
                self._loop.call_soon_threadsafe(self._took, list(parcels))

    def replace_one(self) -> None:
        """See :class:`Workers`."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._more)

    def stop(self, seconds: float) -> None:
        """See :class:`Workers`; from another thread than the loop's, which has to go on."""
        self._stopping = True
        deadline = monotonic() + seconds
        finished = threading.Event()

        def look() -> None:
            if not self._tasks or monotonic() > deadline:
                for task in self._tasks:
                    task.cancel()
                finished.set()
            else:
                self._loop.call_later(0.01, look)

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(look)
            finished.wait(seconds + 1)

    def _took(self, parcels: Sequence[Parcel]) -> None:
        self._parcels.extend(parcels)
        while self._free and self._parcels and not self._stopping:
            self._free -= 1
            task = self._loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _more(self) -> None:
        self._free += 1
        self._took(())

    async def _run(self) -> None:
        while self._parcels and not self._stopping:
            await self._work_off(self._parcels.popleft())

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Hand on what a task has left that a listener's exception ended. After a cancellation the loop ends."""
        self._tasks.discard(task)
        self._free += 1
        if not task.cancelled():
            self._took(())
