"""A copy of a signed half message is rolled back when it is asked about. Runs on one asyncio loop.

See ``docs/decisions/0031-signed-records.md``. What tells a copy from the original is that an earlier half message has
the very same signature: what an application sends again was signed at another time.

Reading may take seconds. A group keeps its turn until its first half message is judged, and what it reads serves all
groups: the other half messages that can be judged by it are judged at once.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import AuthorizationError, TopicPartition
from checkback.kafka.kafka_python.reading import PartitionReader, ReadingThread
from checkback.kafka.kafka_python.repairs import topic_id
from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action, HalfPosition
from checkers.ask import EndpointVerdict
from checkers.settling import Settle, Then, without_verdict
from checkers.signature_index import SignatureIndex

_LOGGER = logging.getLogger(__name__)
_TURN_SECONDS = 2.0
_TURNS = 15
"""Of a group, without one answer. Then the first is answered *unreachable*; what was read is known the next time."""
_TURN_LIMIT_SECONDS = 60.0
"""kafka-python waits for half a minute for a broker that is frozen."""
_PAUSE_SECONDS = 0.5
COPY = "it is a copy: an earlier half message has its signature"
NOT_KNOWN = "whether it is a copy of another half message could not be found out"


class _Look(NamedTuple):
    request: CheckRequest
    verdict: EndpointVerdict
    then: Then


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
        self._index = SignatureIndex()
        """The thread's."""
        self._topic_id: object = None
        self._waiting: OrderedDict[str, list[_Look]] = OrderedDict()
        """By group, the one whose turn is next first."""
        self._turns_in_vain: Counter[str] = Counter()
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
        self._waiting.setdefault(request.group, []).append(_Look(request, verdict, then))
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._work())

    def close(self) -> None:
        """See :class:`~checkback.kafka.kafka_python.reading.ReadingThread`."""
        self._thread.close()

    async def _work(self) -> None:
        while self._waiting:
            group = next(iter(self._waiting))
            for looks in self._waiting.values():
                looks.sort(key=lambda look: look.request.half)  # neighbors are read together
            halves = {name: [look.request.half for look in looks] for name, looks in self._waiting.items()}
            try:
                answers = await self._turn(halves)
            except AuthorizationError as error:
                self._failed(error)
                return
            if answers is None:
                await asyncio.sleep(_PAUSE_SECONDS)
            known: dict[str, Sequence[bool | None]] = {**(answers or {})}
            self._turns_in_vain[group] += 1
            if group not in known and self._turns_in_vain[group] == _TURNS:
                known[group] = [None]
            if answers is None or group in known:
                self._waiting.move_to_end(group)
            for name, copies in known.items():
                looks = self._waiting[name]
                for look, copy in zip(looks, copies, strict=False):
                    self._judge(look, copy)
                del looks[: len(copies)], self._turns_in_vain[name]
                if not looks:
                    del self._waiting[name]

    async def _turn(self, halves: Mapping[str, Sequence[HalfPosition]]) -> dict[str, list[bool]] | None:
        """Answers for the first half messages of groups, as many as there was time for; None: none could be read."""
        try:
            async with asyncio.timeout(_TURN_LIMIT_SECONDS):
                return await self._thread.run(partial(self._look, halves))
        except AuthorizationError:
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, nothing is committed)
            level, group = logging.DEBUG if passes(error) else logging.WARNING, next(iter(halves))
            _LOGGER.log(level, "Whether half messages of group %s are copies is not known yet: %r", group, error)
            return None

    def _judge(self, look: _Look, copy: bool | None) -> None:  # noqa: FBT001  (an answer)
        verdict = look.verdict
        if copy is None:
            _LOGGER.warning("Group %s, half message at %s: %s", look.request.group, look.request.half, NOT_KNOWN)
            verdict = without_verdict(verdict, NOT_KNOWN)._replace(action=Action.UNREACHABLE)  # costs no attempt
        elif copy:
            self._found(look.request.group)
            named = (look.request.transaction_id, look.request.group, look.request.half)
            _LOGGER.error("Transaction %s of group %s at %s is rolled back: %s", *named, COPY)
            verdict = verdict._replace(action=Action.ROLLBACK, remark=COPY)  # what its lane knows holds for it, too
        self._then(look.request, verdict, look.then)

    def _look(self, halves: Mapping[str, Sequence[HalfPosition]], consumer: Any) -> dict[str, list[bool]]:
        """Read for the first group; when time is over, the others are judged by what is known."""
        if (known := topic_id(consumer, self._half_topic)) != self._topic_id:  # the topic was made again
            self._topic_id, self._index = known, SignatureIndex()
        readers: dict[int, PartitionReader] = {}
        until = monotonic() + _TURN_SECONDS
        answers: dict[str, list[bool]] = {}
        for group, wanted in halves.items():
            try:
                for half in wanted:
                    place = TopicPartition(self._half_topic, half.partition)
                    reader = readers.setdefault(half.partition, PartitionReader(consumer, place))
                    copy = self._index.is_copy(reader, half, until)
                    if copy is None:
                        break
                    answers.setdefault(group, []).append(copy)
                    if monotonic() >= until + _TURN_SECONDS:
                        return answers
            except Exception:
                if not answers and group == next(iter(halves)):
                    raise
                break
        return answers
