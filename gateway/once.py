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
        self._under_way: dict[str, asyncio.Task[T]] = {}
        self._done: OrderedDict[str, tuple[float, T]] = OrderedDict()
        """When, and what was given: not the task, of which a hundred thousand keep the garbage collector busy."""

    def begun(self, name: str, act: Callable[[], Awaitable[T]]) -> "asyncio.Future[T]":
        """What ``act`` gives, or has given, or is about to give to who asked first.

        It is not to be cancelled: others may wait for it, too. What failed is not remembered.
        """
        self._forget()
        if name in self._done:
            known: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            known.set_result(self._done[name][1])
            return known
        if name not in self._under_way:
            self._under_way[name] = asyncio.ensure_future(self._run(name, act))
        return self._under_way[name]

    async def _run(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        try:
            given = await act()
        finally:
            del self._under_way[name]
        self._done[name] = self._clock(), given
        return given

    def _forget(self) -> None:
        now = self._clock()
        while self._done:
            at, _ = next(iter(self._done.values()))
            if now - at < KEPT_SECONDS and len(self._done) < self._most:
                return
            self._done.popitem(last=False)
