"""A copy of a signed half message is rolled back when it is asked about. Runs on one asyncio loop.

Whoever may read ``cb.half`` and write to it can write a signed half message a second time, on the same partition and
within the signature's window: see ``docs/decisions/0031-signed-records.md``. No op commits the copy, for an op names a
place; but whoever is asked about it knows its transaction, and says *commit*. What tells it from the original is that
an earlier half message has the very same signature: what an application sends again was signed at another time.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import AuthorizationError, TopicPartition
from checkback.kafka.kafka_python.partition_reader import PartitionReader
from checkback.kafka.kafka_python.reading_thread import ReadingThread
from checkback.wire.checks import CheckRequest
from checkback.wire.delivered import LaneFact
from checkback.wire.protocol import Action, HalfPosition
from checkers.ask import EndpointVerdict
from checkers.settling import Settle, Then, without_verdict
from checkers.signature_index import SignatureIndex

_LOGGER = logging.getLogger(__name__)
_READ_SECONDS = 2.0
_TRIED_FOR_SECONDS = 30.0
"""Then its check is answered *unknown*, and what was read is known the next time."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 4.0
COPY = "it is a copy: an earlier half message has its signature"
NOT_KNOWN = "whether it is a copy of another half message could not be found out"


class Copies:
    """Looks for an original before a *commit* is written of a half message that has to be signed.

    ``signed`` says whether those of a producer group have to be; ``connect`` makes a consumer of kafka-python's when
    one is wanted; ``then`` is what else a verdict rests on. ``found`` is told of the group of each copy, ``failed`` of
    what ends the check service.
    """

    def __init__(
        self,
        half_topic: str,
        signed: Callable[[str], bool],
        connect: Callable[[], Any],
        then: Settle,
        *,
        found: Callable[[str], None] = lambda _: None,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self._half_topic = half_topic
        self._signed = signed
        self._then = then
        self._found, self._failed = found, failed
        self._thread = ReadingThread("checks-copies", connect)
        self._indexes: dict[int, SignatureIndex] = {}
        """By partition."""
        self._looks = set[asyncio.Task[None]]()

    def settle(self, request: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
        """See :data:`~checkers.settling.Settle`."""
        if (
            verdict.action is not Action.COMMIT
            or verdict.fact is LaneFact.DELIVERED  # its producer says so of this very place
            or not self._signed(request.group)
        ):
            self._then(request, verdict, then)
            return
        look = asyncio.get_running_loop().create_task(self._judge(request, verdict, then))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading_thread.ReadingThread`."""
        self._thread.close()

    async def _judge(self, request: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
        try:
            copy = await self._is_copy(request.half)
        except AuthorizationError as error:
            self._failed(error)
            return
        if copy is None:
            verdict = without_verdict(verdict, NOT_KNOWN)
        elif copy:
            self._found(request.group)
            named = (request.transaction_id, request.group, request.half)
            _LOGGER.error("Transaction %s of group %s at %s is rolled back: %s", *named, COPY)
            verdict = EndpointVerdict(Action.ROLLBACK, COPY)
        self._then(request, verdict, then)

    async def _is_copy(self, half: HalfPosition) -> bool | None:
        until = monotonic() + _TRIED_FOR_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - monotonic()):
                    return await self._thread.run(partial(self._look, half))
            except AuthorizationError:
                raise
            except Exception as error:  # noqa: BLE001  (whatever it is, the check comes again)
                if not passes(error) or monotonic() + pause >= until:
                    _LOGGER.warning("Whether the half message at %s is a copy is not known: %r", half, error)
                    return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _look(self, half: HalfPosition, consumer: Any) -> bool | None:
        if half.partition not in self._indexes:
            place = TopicPartition(self._half_topic, half.partition)
            self._indexes[half.partition] = SignatureIndex(PartitionReader(consumer, place))
        return self._indexes[half.partition].is_copy(half.offset, monotonic() + _READ_SECONDS)
