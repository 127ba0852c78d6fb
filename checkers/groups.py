"""A bounded queue for each producer group, so that one that hangs delays no other. Runs on one asyncio loop.

Checks of a group that wait for the same endpoint go there together, as many as it takes at once; nothing waits for more
to come.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkback.check_protocol import CheckRequest
from checkback.protocol import Action
from checkers.ask import Asked, Asker, Verdict
from checkers.breaker import Breaker
from checkers.directory import Endpoint, EndpointDirectory

_LOGGER = logging.getLogger(__name__)
_BATCH_BYTES = 1024 * 1024  # of values, in one request of several checks
_AT_ONCE = 200  # so many answers without asking, then the loop turns to other groups


@dataclass(slots=True)
class Check:
    """A check that was taken, and what it has been through."""

    request: CheckRequest
    origin: Any = None
    """The caller's: where the check came from."""
    tried: tuple[str, ...] = ()
    """URLs that could not be reached for it."""
    remark: str = ""
    """What the last of them did."""


@dataclass(slots=True)
class _Group:
    waiting: deque[Check] = field(default_factory=deque)
    held: int = 0
    """Checks that wait or are under way."""
    under_way: int = 0
    """Requests under way."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Kept, lest they be collected."""


class Groups:
    """Takes checks, and gives each exactly one verdict: to ``answer``, on the loop's thread."""

    def __init__(
        self,
        directory: EndpointDirectory,
        asker: Asker,
        answer: Callable[[Check, Verdict], None],
        clock_ms: Callable[[], int],
        *,
        concurrency: int,
        queue: int,
    ) -> None:
        self._directory = directory
        self._asker = asker
        self._answer = answer
        self._clock_ms = clock_ms
        self._concurrency = concurrency
        self._queue = queue
        self._groups: dict[str, _Group] = {}
        self._breakers: dict[str, Breaker] = {}

    def take(self, checks: Iterable[Check]) -> None:
        """Ask about these, as soon as it is their turn."""
        touched: dict[str, _Group] = {}
        for check in checks:
            name = check.request.group
            group = touched[name] = self._groups.setdefault(name, _Group())
            if group.held >= self._queue:
                self._answer(check, Verdict(Action.UNREACHABLE, f"too many checks of group {name} are waiting"))
                continue
            group.held += 1
            group.waiting.append(check)
        for name, group in touched.items():
            self._dispatch(name, group)

    def _dispatch(self, name: str, group: _Group) -> None:
        now_ms = self._clock_ms()
        for _ in range(_AT_ONCE):
            if not group.waiting:
                if not group.held and self._groups.get(name) is group:
                    del self._groups[name]
                return
            if group.under_way >= self._concurrency:
                return
            endpoint, reason = self._choose(group.waiting[0], now_ms)
            if endpoint is None:
                self._end(group, group.waiting.popleft(), Verdict(Action.UNREACHABLE, reason))
            else:
                self._start(name, group, endpoint, self._batch(group, endpoint, now_ms))
        asyncio.get_running_loop().call_soon(self._dispatch, name, group)

    def _choose(self, check: Check, now_ms: int) -> tuple[Endpoint | None, str]:
        """The endpoint to ask next, or why there is none: one that is well, else one that may be tried again."""
        request = check.request
        known = self._directory.endpoints(request.group, request.topic, now_ms)
        reason, resting = "", None
        for endpoint in known:
            if endpoint.url in check.tried:
                continue
            breaker = self._breakers.get(endpoint.url)
            if breaker is None or breaker.closed:
                return endpoint, ""
            if resting is None and breaker.may_ask(now_ms):
                resting = endpoint
            reason = f"every endpoint of group {request.group} is left alone for a while; {breaker.reason}"
        if resting is not None:
            return resting._replace(batch=1), ""  # no more than one check for a trial
        if check.tried:
            return None, check.remark
        if not known:
            return None, f"no live endpoint of group {request.group} is known"
        return None, reason

    def _batch(self, group: _Group, endpoint: Endpoint, now_ms: int) -> list[Check]:
        """The first checks that wait, as long as they go to the same endpoint."""
        batch = [group.waiting.popleft()]
        size = _size(batch[0])
        same = {(batch[0].request.topic, batch[0].tried)}
        while group.waiting and len(batch) < endpoint.batch:
            check = group.waiting[0]
            if (route := (check.request.topic, check.tried)) not in same:
                if self._choose(check, now_ms)[0] != endpoint:
                    break
                same.add(route)
            size += _size(check)
            if size > _BATCH_BYTES:
                break
            batch.append(group.waiting.popleft())
        return batch

    def _start(self, name: str, group: _Group, endpoint: Endpoint, batch: list[Check]) -> None:
        breaker = self._breakers.get(endpoint.url)
        if breaker is not None:
            breaker.begin()
        group.under_way += 1
        task = asyncio.get_running_loop().create_task(self._ask(name, group, endpoint, batch))
        group.tasks.add(task)
        task.add_done_callback(group.tasks.discard)

    async def _ask(self, name: str, group: _Group, endpoint: Endpoint, batch: list[Check]) -> None:
        try:
            asked = await self._asker.ask(endpoint, [check.request for check in batch])
        except Exception as error:  # an answer must come in any case: the offset waits for it
            _LOGGER.exception("Asking %s failed", endpoint.url)
            asked = Asked([Verdict(Action.UNKNOWN, f"asking failed: {error!r}")] * len(batch))
        self._note(endpoint.url, asked.failure)
        group.under_way -= 1
        self._settle(group, endpoint.url, batch, asked.verdicts)
        self._dispatch(name, group)

    def _note(self, url: str, failure: str) -> None:
        if failure:
            self._breakers.setdefault(url, Breaker()).failed(self._clock_ms(), failure)
        else:
            self._breakers.pop(url, None)  # as good as new

    def _settle(self, group: _Group, url: str, batch: Sequence[Check], verdicts: Sequence[Verdict]) -> None:
        for check, verdict in zip(reversed(batch), reversed(verdicts), strict=True):
            if verdict.action is Action.UNREACHABLE:
                check.tried = (*check.tried, url)
                check.remark = verdict.remark
                group.waiting.appendleft(check)  # another endpoint is next
            else:
                self._end(group, check, verdict)

    def _end(self, group: _Group, check: Check, verdict: Verdict) -> None:
        group.held -= 1
        self._answer(check, verdict)


def _size(check: Check) -> int:
    request = check.request
    return len(request.value or b"") + sum(len(message.value or b"") for message in request.messages)
