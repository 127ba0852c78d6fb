"""What requests may cost a process of a gateway: bytes in flight, and the thread that converts large bodies. No I/O."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from checkback.wire.limits import FairShares
from gateway.refusals import GatewayError, RefusalReason

T = TypeVar("T")
_IN_FLIGHT_BYTES = 80 << 20
"""A process needs about five times as much for them: as text, in parts, as records."""
_PROMPT_BYTES = 16 << 10
_THREAD = ThreadPoolExecutor(1, "gateway-bodies")
"""The only one: several would keep the interpreter from the loop, and hold what they convert at the same time."""


class BytesInFlight(FairShares):
    """Of a process, by account. Who would hold more gets a GatewayError."""

    def __init__(self, most: int = _IN_FLIGHT_BYTES) -> None:
        problem = "This gateway is working on too many bytes: send it again later."
        super().__init__(most, partial(GatewayError, RefusalReason.BUSY, problem))


async def converted(size: int, convert: Callable[[], T]) -> T:
    """The result of ``convert``, which runs on a thread if it works on more than a few bytes."""
    if size <= _PROMPT_BYTES:
        return convert()
    return await asyncio.get_running_loop().run_in_executor(_THREAD, convert)
