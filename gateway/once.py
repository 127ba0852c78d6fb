"""What is asked for a second time under the same name is done once: as far as one process remembers it."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")
KEPT_SECONDS = 300.0
_MOST = 100_000


class Once(Generic[T]):
    """Names of the last five minutes, at most 100,000; all on one loop. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._done: OrderedDict[str, tuple[float, asyncio.Task[T]]] = OrderedDict()

    async def do(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        """What ``act`` gives, or has given, or is about to give to who asked first.

        It goes on when he who asked first goes away. What failed is not remembered.
        """
        self._forget()
        known = self._done.get(name)
        if known is not None and not _failed(known[1]):
            return await asyncio.shield(known[1])
        task = asyncio.ensure_future(_run(act))
        self._done[name] = self._clock(), task
        self._done.move_to_end(name)
        return await asyncio.shield(task)

    def _forget(self) -> None:
        now = self._clock()
        while self._done:
            at, task = next(iter(self._done.values()))
            if not (now - at >= KEPT_SECONDS or len(self._done) >= self._most):
                return
            if not task.done():
                return
            self._done.popitem(last=False)


async def _run(act: Callable[[], Awaitable[T]]) -> T:
    return await act()


def _failed(task: "asyncio.Task[T]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
