"""What requests may cost a process of a gateway: bytes in flight, and the thread that converts large bodies. No I/O."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from gateway.refusals import GatewayError, RefusalReason

T = TypeVar("T")
_IN_FLIGHT_BYTES = 80 << 20
"""A process needs about five times as much for them: as text, in parts, as records."""
_PROMPT_BYTES = 16 << 10
_THREAD = ThreadPoolExecutor(1, "gateway-bodies")
"""The only one: several would keep the interpreter from the loop, and hold what they convert at the same time."""


class BytesInFlight:
    """Bytes of the requests that a process is working on. An account may hold as many as it leaves free for others."""

    def __init__(self, most: int = _IN_FLIGHT_BYTES) -> None:
        self._free = most
        self._held = Counter[str]()

    @contextmanager
    def of(self, account: str) -> Iterator[Callable[[int], None]]:
        """What to call before each part of a request is kept; the end of the block frees them all.

        The call raises GatewayError if the account would hold more than its share.
        """
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if self._held[account] + size > self._free - size:
                raise GatewayError(
                    RefusalReason.BUSY, "This gateway is working on too many bytes: send it again later."
                )
            held += size
            self._held[account] += size
            self._free -= size

        try:
            yield take
        finally:
            self._held[account] -= held
            self._free += held
            if not self._held[account]:
                del self._held[account]


async def converted(size: int, convert: Callable[[], T]) -> T:
    """The result of ``convert``, which runs on a thread if it works on more than a few bytes."""
    if size <= _PROMPT_BYTES:
        return convert()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, convert)
