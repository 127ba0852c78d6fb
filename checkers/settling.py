"""Lanes are settled before a verdict on a half message of theirs is written. Runs on one asyncio loop.

A half message that names a lane may have been delivered by its producer. Who says *commit* or *rollback* of it has to
know whether it was: ``docs/decisions/0029-the-direct-lane.md``. Settling fences the lane's process, so none is settled
for an *unknown* of a local transaction that takes its time.

Kafka may take seconds for a lane whose process died inside a transaction. So several are settled at once, and no group
has all of the threads: one that loses a thousand processes delays no other group's answers.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from checkback.exceptions import CheckbackError
from checkback.kafka.bounded_calls import in_thread
from checkback.wire.checks import REMARK_CHARACTERS, CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Action
from checkers.ask import EndpointVerdict

_LOGGER = logging.getLogger(__name__)
MOST_AT_ONCE = 32
"""Lanes that are settled at once, each in a thread of its own."""
MOST_OF_A_GROUP = 16
_MOST_KNOWN = 4_096
"""Settled lanes whose ledgers are kept: at most 16 MiB of text."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 250, 4_000
_TRIED_FOR_MS = 30_000
"""Then its checks are answered *unknown*: they hold room, and the offset of ``cb.check``."""
_SAID_AGAIN_MS = 10_000
NO_LEDGER = "its lane has no ledger any more, so that nobody can know whether it was delivered"

Then = Callable[[EndpointVerdict], None]
Settle = Callable[[CheckRequest, EndpointVerdict, Then], None]
"""Calls ``then`` with the verdict that may be written: at once, or on the loop when the lane has been settled."""


def must_settle(request: CheckRequest, verdict: EndpointVerdict) -> bool:
    """Whether a verdict may be written only when the lane has been settled.

    That which decides, that which uses up the last attempt, and that nobody can be asked; unless the lane's own process
    has said what it did.
    """
    if not request.lane or verdict.fact is not None:
        return False
    return verdict.action is not Action.UNKNOWN or request.attempt >= request.check_max


def resting_on(ledger: Ledger | None, request: CheckRequest, verdict: EndpointVerdict) -> EndpointVerdict:
    """The verdict as it may be written when a lane has been settled, and has left this ledger.

    What was delivered is committed, whatever was answered. Without a ledger there is no verdict.
    """
    if ledger is None:
        return verdict if verdict.fact is not None else without_verdict(verdict, NO_LEDGER)
    if request.half not in ledger:
        return verdict._replace(fact=LaneFact.SETTLED)
    return delivered(verdict)


def delivered(verdict: EndpointVerdict) -> EndpointVerdict:
    """What is written of a half message that its lane has delivered, whatever was answered."""
    said = verdict.remark if verdict.action is Action.COMMIT else _said(verdict, "its lane has delivered it")
    return EndpointVerdict(Action.COMMIT, said, LaneFact.DELIVERED)


def without_verdict(verdict: EndpointVerdict, reason: str) -> EndpointVerdict:
    """What is written instead of a verdict that rests on nothing."""
    action = Action.UNREACHABLE if verdict.action is Action.UNREACHABLE else Action.UNKNOWN
    return EndpointVerdict(action, _said(verdict, reason))


def _said(verdict: EndpointVerdict, reason: str) -> str:
    answer = f"{verdict.action}{f', {verdict.remark}' if verdict.remark else ''}"
    return f"{reason}; the answer: {answer}"[:REMARK_CHARACTERS]


class _LaneOfGroup(NamedTuple):
    group: str
    lane: str


class _Waiting(NamedTuple):
    """Verdicts that wait for one lane."""

    since_ms: int
    verdicts: list[tuple[CheckRequest, EndpointVerdict, Then]]


class Lanes:
    """Has lanes settled, each once, and keeps what they have left; :meth:`settle` is a :data:`Settle`.

    ``settle`` is :meth:`checkback.kafka.librdkafka.settling.Settler.settle`. ``told`` hears of each lane that was
    settled: its group, and what came of it. ``contradicted`` hears the group of each rollback of what its lane has
    delivered.
    """

    def __init__(
        self,
        settle: Callable[[str, str], Ledger | None],
        clock_ms: Callable[[], int],
        told: Callable[[str, str], None] = lambda _group, _result: None,
        contradicted: Callable[[str], None] = lambda _group: None,
    ) -> None:
        self._settle = settle
        self._clock_ms = clock_ms
        self._told = told
        self._contradicted = contradicted
        self._known: OrderedDict[_LaneOfGroup, Ledger | None] = OrderedDict()
        self._waiting: dict[_LaneOfGroup, _Waiting] = {}
        self._queues: dict[str, deque[_LaneOfGroup]] = {}
        self._turns: dict[str, None] = {}
        """Groups that have lanes in a queue and may have another one settled, the one whose turn it is first."""
        self._under_way: Counter[str] = Counter()
        self._said_again_ms = 0

    def settle(self, request: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
        """Find out on what the verdict rests, and call ``then`` with what may be written."""
        lane = _LaneOfGroup(request.group, request.lane)
        if not request.lane:
            then(verdict._replace(fact=None))  # whatever the endpoint said of one
        elif verdict.fact is LaneFact.DELIVERED:
            self._end(request, verdict, delivered(verdict), then)
        elif lane in self._known:
            self._known.move_to_end(lane)
            self._end(request, verdict, resting_on(self._known[lane], request, verdict), then)
        elif not must_settle(request, verdict):
            then(verdict)
        elif lane in self._waiting:
            self._waiting[lane].verdicts.append((request, verdict, then))
        else:
            self._waiting[lane] = _Waiting(self._clock_ms(), [(request, verdict, then)])
            self._queue(lane)

    def _end(self, request: CheckRequest, answer: EndpointVerdict, verdict: EndpointVerdict, then: Then) -> None:
        if verdict.fact is LaneFact.DELIVERED and answer.action is Action.ROLLBACK:
            self._contradicted(request.group)
            named = (request.group, request.transaction_id, request.half)
            _LOGGER.error("Group %s answers rollback of %s at %s, which its lane has delivered: committed.", *named)
        then(verdict)

    def _queue(self, lane: _LaneOfGroup) -> None:
        self._queues.setdefault(lane.group, deque()).append(lane)
        self._line_up(lane.group)
        self._start()

    def _line_up(self, group: str) -> None:
        if group in self._queues and self._under_way[group] < MOST_OF_A_GROUP:
            self._turns[group] = None

    def _start(self) -> None:
        while self._turns and self._under_way.total() < MOST_AT_ONCE:
            group = next(iter(self._turns))
            del self._turns[group]
            queue = self._queues[group]
            lane = queue.popleft()
            if not queue:
                del self._queues[group]
            self._under_way[group] += 1
            self._line_up(group)
            loop = asyncio.get_running_loop()
            in_thread(partial(self._settle, *lane)).add_done_callback(partial(self._hand_back, loop, lane))

    def _hand_back(self, loop: asyncio.AbstractEventLoop, lane: _LaneOfGroup, done: "Future[Ledger | None]") -> None:
        with suppress(RuntimeError):  # the loop has been closed: its checks are asked again
            loop.call_soon_threadsafe(self._settled, lane, done)

    def _settled(self, lane: _LaneOfGroup, done: "Future[Ledger | None]") -> None:
        self._under_way[lane.group] -= 1
        if not self._under_way[lane.group]:
            del self._under_way[lane.group]
        error = done.exception()
        if error is None:
            self._know(lane, done.result())
        else:
            self._failed(lane, error)
        self._line_up(lane.group)
        self._start()

    def _know(self, lane: _LaneOfGroup, ledger: Ledger | None) -> None:
        self._told(lane.group, "no_ledger" if ledger is None else "settled")
        self._known[lane] = ledger
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        for request, verdict, then in self._waiting.pop(lane).verdicts:
            self._end(request, verdict, resting_on(ledger, request, verdict), then)

    def _failed(self, lane: _LaneOfGroup, error: BaseException) -> None:
        """Again in a moment, behind the group's others; or there is no verdict."""
        self._told(lane.group, "failed")
        now_ms = self._clock_ms()
        if now_ms >= self._said_again_ms:
            self._said_again_ms = now_ms + _SAID_AGAIN_MS
            _LOGGER.warning("Lane %s of group %s is not settled, its checks wait: %s", lane.lane, lane.group, error)
        waited_ms = now_ms - self._waiting[lane].since_ms
        if isinstance(error, CheckbackError) and error.retriable and waited_ms < _TRIED_FOR_MS:
            pause_ms = min(max(waited_ms, _FIRST_PAUSE_MS), _LONGEST_PAUSE_MS)
            asyncio.get_running_loop().call_later(pause_ms / 1000, self._queue, lane)
            return
        for _, verdict, then in self._waiting.pop(lane).verdicts:
            then(without_verdict(verdict, f"its lane was not settled: {error}"))
