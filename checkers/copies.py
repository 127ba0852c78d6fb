"""A copy of a signed half message is rolled back when it is asked about. Runs on one asyncio loop.

Whoever may read ``cb.half`` and write to it can write a signed half message a second time, on the same partition and
within the signature's window: see ``docs/decisions/0031-signed-records.md``. No op commits the copy, for an op names a
place; but whoever is asked about it knows its transaction, and says *commit*. What tells it from the original is that
an earlier half message has the very same signature: what an application sends again was signed at another time.

Reading may take seconds, so groups take turns, each with stretches of its own: one whose checks lie far apart makes no
other wait for more than a turn.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import AuthorizationError, TopicPartition
from checkback.kafka.kafka_python.partition_reader import PartitionReader
from checkback.kafka.kafka_python.reading_thread import ReadingThread
from checkback.kafka.kafka_python.repairs import topic_id
from checkback.wire.checks import CheckRequest
from checkback.wire.delivered import LaneFact
from checkback.wire.protocol import Action, HalfPosition
from checkers.ask import EndpointVerdict
from checkers.settling import Settle, Then, without_verdict
from checkers.signature_index import SignatureIndex

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 2.0
_TURNS = 15
"""Of a group, without one answer. Then the first is answered *unknown*; what was read is known the next time."""
_TURN_LIMIT_SECONDS = 60.0
"""kafka-python waits for half a minute for a broker that is frozen."""
_PAUSE_SECONDS = 0.5
_MOST_STRETCHES = 8
COPY = "it is a copy: an earlier half message has its signature"
NOT_KNOWN = "whether it is a copy of another half message could not be found out"


class _Look(NamedTuple):
    half: HalfPosition
    request: CheckRequest
    verdict: EndpointVerdict
    then: Then


class _GroupLooks:
    """What is to be looked for, of one group."""

    def __init__(self) -> None:
        self.looks: list[_Look] = []
        self.turns_in_vain = 0


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
        self._stretches: OrderedDict[tuple[str, int], SignatureIndex] = OrderedDict()
        """By group and partition, the one that was used last at the end. The thread's."""
        self._topic_id: object = None
        self._waiting: OrderedDict[str, _GroupLooks] = OrderedDict()
        """By group, the one whose turn is next first."""
        self._working: asyncio.Task[None] | None = None

    def settle(self, request: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
        """See :data:`~checkers.settling.Settle`."""
        if (
            verdict.action is not Action.COMMIT
            or verdict.fact is LaneFact.DELIVERED  # its producer says so of this very place
            or not self._signed(request.group)
        ):
            self._then(request, verdict, then)
            return
        self._waiting.setdefault(request.group, _GroupLooks()).looks.append(_Look(request.half, request, verdict, then))
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading_thread.ReadingThread`."""
        self._thread.close()

    async def _work(self) -> None:
        while self._waiting:
            group, waiting = next(iter(self._waiting.items()))
            self._waiting.move_to_end(group)
            waiting.looks.sort(key=lambda look: look.half)  # neighbours lie in one stretch
            try:
                answers = await self._turn(group, [look.half for look in waiting.looks])
            except AuthorizationError as error:
                self._failed(error)
                return
            waiting.turns_in_vain = 0 if answers else waiting.turns_in_vain + 1
            if not answers and waiting.turns_in_vain < _TURNS:
                await asyncio.sleep(_PAUSE_SECONDS if len(self._waiting) == 1 else 0)
                continue
            known: list[bool | None] = [*answers] if answers else [None]
            for look, copy in zip(waiting.looks, known, strict=False):
                self._judge(look, copy)
            waiting.turns_in_vain = 0
            del waiting.looks[: len(known)]
            if not waiting.looks:
                del self._waiting[group]

    async def _turn(self, group: str, halves: Sequence[HalfPosition]) -> list[bool]:
        """Answers for the first of these, as many as there was time for."""
        try:
            async with asyncio.timeout(_TURN_LIMIT_SECONDS):
                return await self._thread.run(partial(self._look, group, halves))
        except AuthorizationError:
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, nothing is committed)
            level = logging.DEBUG if passes(error) else logging.WARNING
            _LOGGER.log(level, "Whether half messages of group %s are copies is not known yet: %r", group, error)
            return []

    def _judge(self, look: _Look, copy: bool | None) -> None:  # noqa: FBT001  (an answer)
        verdict = look.verdict
        if copy is None:
            _LOGGER.warning("Group %s, half message at %s: %s", look.request.group, look.half, NOT_KNOWN)
            verdict = without_verdict(verdict, NOT_KNOWN)
        elif copy:
            self._found(look.request.group)
            named = (look.request.transaction_id, look.request.group, look.half)
            _LOGGER.error("Transaction %s of group %s at %s is rolled back: %s", *named, COPY)
            verdict = verdict._replace(action=Action.ROLLBACK, remark=COPY)  # what its lane knows holds for it, too
        self._then(look.request, verdict, look.then)

    def _look(self, group: str, halves: Sequence[HalfPosition], consumer: Any) -> list[bool]:
        until = monotonic() + _TURN_SECONDS
        answers: list[bool] = []
        for half in halves:
            index = self._stretch(group, half.partition, consumer)
            try:
                found = index.is_copy(half.offset, until)
            except Exception:
                if not answers:
                    raise
                break
            if found is None:
                break
            answers.append(found)
            if monotonic() >= until:
                break
        return answers

    def _stretch(self, group: str, partition: int, consumer: Any) -> SignatureIndex:
        known = topic_id(consumer, self._half_topic)
        if known != self._topic_id:  # the topic was made again
            self._stretches.clear()
            self._topic_id = known
        name = group, partition
        if name not in self._stretches:
            reader = PartitionReader(consumer, TopicPartition(self._half_topic, partition))
            self._stretches[name] = SignatureIndex(reader)
            if len(self._stretches) > _MOST_STRETCHES:
                self._stretches.popitem(last=False)
        self._stretches.move_to_end(name)
        return self._stretches[name]
