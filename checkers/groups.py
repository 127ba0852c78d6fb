"""A bounded queue for each producer group, so that one that hangs delays no other. Runs on one asyncio loop.

Checks of a group that wait for the same endpoint go there together, as many as it takes at once; nothing waits for more
to come. What all groups have together (memory, connections) is shared among them. That a group has to wait for its
share, or for something that this process has run out of, is not held against its endpoints.

A check for which there is no room, or nobody to be asked, is postponed: it waits in Kafka (:mod:`checkers.behind`).
If a group has no endpoint, only a few of its checks are answered *unreachable*, so that people see it, and kept.

A check whose lane is being settled (:mod:`checkers.settling`) keeps its room until that is done.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from checkback.wire.protocol import Action, HalfPosition
from checkers.ask import Asker, EndpointAnswer, EndpointVerdict
from checkers.breakers import EndpointBreakers
from checkers.check import Check, CheckEnds
from checkers.directory import Endpoint, EndpointDirectory, group_standing
from checkers.facts import GroupStanding
from checkers.http.shares import GroupShares
from conf.redaction import redacted

_LOGGER = logging.getLogger(__name__)
_BATCH_BYTES = 1024 * 1024  # of messages, in one request of several checks
_UNPROVEN_BATCH = 10  # checks in a request to an endpoint that has not answered yet: if it hangs, each loses an attempt
_AT_ONCE = 200  # so many answers without asking, then the loop turns to other groups
_MOST_TRIED = 8  # endpoints for one check; those heard from last, which are most likely to live
_MOST_LOOKED_AT = 100  # endpoints for one choice, so that a group with many dead ones costs others little
_WOKEN_AT_ONCE = 8  # groups that wait for a connection, whenever one comes back
_LACKING_SECONDS = 0.25  # until it is tried again, when we have run out of something
_SAID_AGAIN_MS = 10_000
_MISSED_ANSWERS = 100
"""So many checks of a group are answered *unreachable* in _MISSED_MS; the others are postponed."""
_MISSED_MS = 30_000
_MOST_ROOM = 1_000
_MOST_SHOWN = 1_000
_LEAST_BYTES = 256 * 1024  # that a group may still take: more than the largest check has


@dataclass(slots=True)
class _GroupChecks:
    waiting: deque[Check] = field(default_factory=deque)
    held: int = 0
    """Checks that wait or are under way."""
    under_way: int = 0
    """Requests under way."""
    pausing: bool = False
    """We have run out of something, and it was this group that noticed: it waits for a moment."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Kept, lest they be collected."""
    of: dict[tuple[HalfPosition, str], Check] = field(default_factory=dict)
    """Of each transaction, the check that waits or is under way; those behind it are its ``newer``."""


class Groups:
    """Takes checks, and lets each have one end, on the loop's thread.

    ``concurrency`` requests of one group are under way at once, ``queue`` of its checks wait or are under way.
    """

    def __init__(
        self,
        directory: EndpointDirectory,
        asker: Asker,
        ends: CheckEnds,
        clock_ms: Callable[[], int],
        *,
        concurrency: int,
        queue: int,
        shares: GroupShares | None = None,
    ) -> None:
        self._directory = directory
        self._asker = asker
        self._answer, self._postpone, self._keep, self._drop, self._asked, self._settled = ends
        self._clock_ms = clock_ms
        self._concurrency = concurrency
        self._queue = queue
        shares = shares or GroupShares()
        self._connections, self._bytes = shares.connections, shares.bytes
        self._groups: dict[str, _GroupChecks] = {}
        self._breakers = EndpointBreakers()
        self._unconnected: dict[str, _GroupChecks] = {}
        """Groups that wait for a connection, the one that waits longest first."""
        self._said_again_ms = 0
        self._missed: Counter[str] = Counter()
        self._missed_since_ms = 0

    def take(self, checks: Iterable[Check]) -> None:
        """Ask about these, as soon as it is their turn; of a transaction that is being asked about, after that."""
        touched: dict[str, _GroupChecks] = {}
        for check in checks:
            name = check.request.group
            group = touched[name] = self._groups.setdefault(name, _GroupChecks())
            refusal = self._refusal(name, group, check)
            if refusal:
                self._postpone(check, refusal)
                continue
            group.held += 1
            first = group.of.setdefault(check.transaction, check)
            if first is check:
                group.waiting.append(check)
            else:
                self._drop_newer(group, first)
                first.newer = check
        for name, group in touched.items():
            self._dispatch(name, group)

    def room(self, name: str, topic: str) -> int:
        """How many more checks of a group, for a real topic, would be asked now; 1 where an endpoint is tried again."""
        if self._bytes.room(name) < _LEAST_BYTES:
            return 0
        now_ms, group = self._clock_ms(), self._groups.get(name)
        held = group.held if group else 0
        probed = False
        for endpoint in islice(self._directory.endpoints(name, topic, now_ms), _MOST_LOOKED_AT):
            breaker = self._breakers.get(name, endpoint.url)
            if breaker is None or breaker.closed:
                return max(0, min(self._queue - held, _MOST_ROOM))
            probed = probed or breaker.may_ask(now_ms)
        return int(probed and not held)

    def standing(self) -> dict[str, GroupStanding]:
        """How the groups stand of which an endpoint is known, or checks are here; at most 1,000 of them."""
        now_ms = self._clock_ms()
        names = [*self._groups, *(name for name in self._directory.groups() if name not in self._groups)]
        return {name: self._standing_of(name, now_ms) for name in names[:_MOST_SHOWN]}

    def _standing_of(self, name: str, now_ms: int) -> GroupStanding:
        group = self._groups.get(name) or _GroupChecks()

        def state_of(url: str) -> tuple[str, str]:
            breaker = self._breakers.get(name, url)
            if breaker is None:
                return "well", ""
            return "skipped" if breaker.skipped(now_ms) else "tried", breaker.reason

        found = group_standing(self._directory, name, now_ms, state_of)
        return found._replace(waiting=group.held, under_way=group.under_way)

    def _refusal(self, name: str, group: _GroupChecks, check: Check) -> str:
        """Why there is no room for one more check of a group; none: its room is taken."""
        if group.held >= self._queue:
            return f"too many checks of group {name} are waiting"
        if not self._bytes.take(name, check.size):
            return f"checks of too many bytes are waiting, of group {name} and others"
        return ""

    def _dispatch(self, name: str, group: _GroupChecks) -> None:
        now_ms = self._clock_ms()
        for _ in range(_AT_ONCE):
            if not group.waiting:
                self._forget_empty(name, group)
                return
            if group.pausing or group.under_way >= self._concurrency:
                return
            endpoint, reason = self._choose(group.waiting[0], now_ms)
            if endpoint is None:
                self._miss(group, group.waiting.popleft(), reason)
            elif self._connections.take(name):
                self._start(name, group, endpoint, self._batch(group, endpoint, now_ms))
            else:
                self._unconnected[name] = group
                return
        asyncio.get_running_loop().call_soon(self._dispatch, name, group)

    def _wake(self) -> None:
        """A connection has come back: to those that wait for one, in turn."""
        for name in list(islice(self._unconnected, _WOKEN_AT_ONCE)):
            self._dispatch(name, self._unconnected.pop(name))

    def _choose(self, check: Check, now_ms: int) -> tuple[Endpoint | None, str]:
        """The endpoint to ask next, or why there is none: one that is well, else one that may be tried again."""
        request = check.request
        # one that answers for other topics only may be there, and is shown as well
        reason, probe = f"no live endpoint of group {request.group} for topic {request.topic} is known", None
        known = self._directory.endpoints(request.group, request.topic, now_ms)
        for endpoint in islice(known, _MOST_LOOKED_AT if len(check.tried) < _MOST_TRIED else 0):
            if endpoint.url in check.tried:
                continue
            breaker = self._breakers.get(request.group, endpoint.url)
            if breaker is None or breaker.closed:
                proven = self._breakers.answers(request.group, endpoint.url)
                return endpoint if proven else endpoint._replace(batch=min(endpoint.batch, _UNPROVEN_BATCH)), ""
            if probe is None and breaker.may_ask(now_ms):
                probe = endpoint
            reason = f"every endpoint of group {request.group} is skipped for now; {breaker.reason}"
        if probe is not None:
            return probe._replace(batch=1), ""  # no more than one check for a trial
        return None, check.remark if check.tried else reason

    def _batch(self, group: _GroupChecks, endpoint: Endpoint, now_ms: int) -> list[Check]:
        """The first checks that wait, as long as they go to the same endpoint, and each is of another id."""
        batch = [group.waiting.popleft()]
        size, ids = batch[0].size, {batch[0].request.transaction_id}
        same = {(batch[0].request.topic, batch[0].tried)}
        while group.waiting and len(batch) < endpoint.batch and not batch[0].alone:
            check = group.waiting[0]
            if check.alone or check.request.transaction_id in ids:  # an answer says the id alone
                break
            if (route := (check.request.topic, check.tried)) not in same:
                if self._choose(check, now_ms)[0] != endpoint:
                    break
                same.add(route)
            size += check.size
            if size > _BATCH_BYTES:
                break
            ids.add(check.request.transaction_id)
            batch.append(group.waiting.popleft())
        return batch

    def _start(self, name: str, group: _GroupChecks, endpoint: Endpoint, batch: list[Check]) -> None:
        self._breakers.begin(name, endpoint.url)
        group.under_way += 1
        task = asyncio.get_running_loop().create_task(self._ask(name, group, endpoint, batch))
        group.tasks.add(task)
        task.add_done_callback(group.tasks.discard)

    async def _ask(self, name: str, group: _GroupChecks, endpoint: Endpoint, batch: list[Check]) -> None:
        began_ms = self._clock_ms()
        try:
            asked = await self._asker.ask(endpoint, [check.request for check in batch])
        except Exception as error:  # an answer must come in any case: the offset waits for it
            _LOGGER.exception("Asking %s failed", redacted(endpoint.url))
            asked = EndpointAnswer([EndpointVerdict(Action.UNKNOWN, f"asking failed: {error!r}")] * len(batch))
        self._asked(name, (self._clock_ms() - began_ms) / 1000)
        group.under_way -= 1
        self._connections.give(name)
        if asked.lacking:
            self._lacking(name, group, endpoint, batch, asked.lacking)
        elif asked.alone:
            (self._breakers.give_up if asked.unsigned else self._breakers.succeeded)(name, endpoint.url)
            for check in batch:
                check.alone = True
            self._again(group, batch)
        else:
            self._note(name, endpoint.url, asked.failure)
            self._take_verdicts(group, endpoint.url, batch, asked)
        self._wake()
        self._dispatch(name, group)

    def _lacking(self, name: str, group: _GroupChecks, endpoint: Endpoint, batch: Sequence[Check], what: str) -> None:
        """Nobody was asked, for want of something of ours: again in a moment, as if nothing had been."""
        now_ms = self._clock_ms()
        if now_ms >= self._said_again_ms:
            self._said_again_ms = now_ms + _SAID_AGAIN_MS
            _LOGGER.warning("The check service has run out of something: checks of group %s wait. %s", name, what)
        self._breakers.give_up(name, endpoint.url)
        self._again(group, batch)
        if not group.pausing:
            group.pausing = True
            asyncio.get_running_loop().call_later(_LACKING_SECONDS, self._go_on, name, group)

    def _go_on(self, name: str, group: _GroupChecks) -> None:
        group.pausing = False
        self._dispatch(name, group)

    def _again(self, group: _GroupChecks, batch: Sequence[Check]) -> None:
        group.waiting.extendleft(reversed(batch))

    def _note(self, name: str, url: str, failure: str) -> None:
        before = self._breakers.get(name, url)
        rested = before is not None and not before.closed
        if not failure:
            self._breakers.succeeded(name, url)
            if rested:
                _LOGGER.info("Check endpoint %s of group %s answers again.", redacted(url), name)
            return
        self._breakers.failed(name, url, self._clock_ms(), failure)
        after = self._breakers.get(name, url)
        if after is not None and not after.closed and not rested:
            said = (redacted(url), name, failure.rstrip("."))
            _LOGGER.warning("Check endpoint %s of group %s is skipped for now: %s.", *said)

    def _take_verdicts(self, group: _GroupChecks, url: str, batch: Sequence[Check], asked: EndpointAnswer) -> None:
        for check, verdict in zip(reversed(batch), reversed(asked.verdicts), strict=True):
            if verdict.action is Action.UNREACHABLE:
                check.tried = (*check.tried, url)
                check.unsigned = check.unsigned or asked.unsigned
                check.remark = verdict.remark
                group.waiting.appendleft(check)  # another endpoint is next
            else:
                self._settled(check.request, verdict, partial(self._end, group, check))

    def _miss(self, group: _GroupChecks, check: Check, reason: str) -> None:
        """Nobody can be asked: for the first ones of a group that is an answer, too; all wait until somebody can."""
        now_ms, name = self._clock_ms(), check.request.group
        if check.unsigned:
            unknown = EndpointVerdict(Action.UNKNOWN, check.remark)
            self._settled(check.request, unknown, partial(self._end, group, check))
            return
        if now_ms - self._missed_since_ms >= _MISSED_MS:
            self._missed_since_ms = now_ms
            self._missed.clear()
        self._missed[name] += not check.answered
        verdict = EndpointVerdict(Action.UNREACHABLE, reason)
        if check.answered:
            self._missed_by_all(group, check, verdict)
        elif self._missed[name] <= _MISSED_ANSWERS:
            self._settled(check.request, verdict, partial(self._missed_by_all, group, check))
        else:
            self._put_off(group, check)
            self._postpone(check, reason)

    def _missed_by_all(self, group: _GroupChecks, check: Check, verdict: EndpointVerdict) -> None:
        if verdict.action is not Action.UNREACHABLE:  # nobody needs to be asked: its lane says what it did
            self._end(group, check, verdict)
            return
        self._put_off(group, check)
        self._keep(check, verdict)

    def _put_off(self, group: _GroupChecks, check: Check) -> None:
        """The check leaves without a verdict; nobody was asked for a newer one, so that gets an answer of its own."""
        self._leave(group, check)
        if check.newer is None:
            self._forget_empty(check.request.group, group)
        else:
            group.of[check.transaction] = check.newer
            group.waiting.appendleft(check.newer)
            # perhaps it has waited for its lane, and nothing else is under way
            asyncio.get_running_loop().call_soon(self._dispatch, check.request.group, group)

    def _end(self, group: _GroupChecks, check: Check, verdict: EndpointVerdict) -> None:
        self._leave(group, check)
        self._drop_newer(group, check)
        self._forget_empty(check.request.group, group)
        self._answer(check, verdict)

    def _forget_empty(self, name: str, group: _GroupChecks) -> None:
        if not group.held and self._groups.get(name) is group:
            del self._groups[name]

    def _leave(self, group: _GroupChecks, check: Check) -> None:
        del group.of[check.transaction]
        self._give_room(group, check)

    def _drop_newer(self, group: _GroupChecks, check: Check) -> None:
        if check.newer is not None:
            self._give_room(group, check.newer)
            self._drop(check.newer)

    def _give_room(self, group: _GroupChecks, check: Check) -> None:
        group.held -= 1
        self._bytes.give(check.request.group, check.size)
