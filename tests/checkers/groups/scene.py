"""Groups of checks on a loop, with endpoints that answer as they are told."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from checkback import CheckRequest, HalfPosition
from checkback.wire.checks import Announcement
from checkback.wire.protocol import Action
from checkers.ask import Asker, EndpointAnswer, EndpointVerdict
from checkers.check import Check, CheckEnds
from checkers.directory import Endpoint, EndpointDirectory
from checkers.groups import Groups
from checkers.http.shares import GroupShares
from checkers.settling import Settle
from tests.checkers.asking import at_once

ONE, TWO = "http://one/", "http://two/"


COMMIT, UNKNOWN, UNREACHABLE = Action.COMMIT, Action.UNKNOWN, Action.UNREACHABLE


def check(name: str, group: str = "orders", topic: str = "paid", value: bytes = b"v") -> Check:
    return Check(CheckRequest(name, group, topic, None, value, [], HalfPosition(0, 0), 1, 15, 0))


def refused(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(UNREACHABLE, "refused")] * len(requests), "refused")


def committed(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(COMMIT, "")] * len(requests))


class Scene(Asker):
    """Groups with an asker that does what it is told, a clock, and what came of it."""

    def __init__(
        self, *, concurrency: int = 2, queue: int = 1_000, shares: GroupShares | None = None, settle: Settle = at_once
    ) -> None:
        self.now_ms = 0
        self.directory = EndpointDirectory({}, ttl_ms=10**9)
        self.behaves: dict[str, Callable[[Sequence[CheckRequest]], EndpointAnswer]] = {}
        self.posts: list[tuple[str, list[str]]] = []
        self.held: dict[str, asyncio.Event] = {}
        self.verdicts: dict[str, EndpointVerdict] = {}
        self.postponed: dict[str, str] = {}
        self.kept: list[str] = []
        self.dropped: list[Any] = []
        self.groups = Groups(
            self.directory,
            self,
            CheckEnds(
                *(self._answered, self._postponed, self._kept, lambda one: self.dropped.append(one.origin)),
                *(lambda *_: None, settle),
            ),
            lambda: self.now_ms,
            concurrency=concurrency,
            queue=queue,
            shares=shares or GroupShares(),
        )

    def announce(self, url: str, group: str = "orders", **more: Any) -> None:
        self.directory.hear(*Announcement(group, url, url, 0, **more).to_record(), 0)

    async def ask(self, endpoint: Endpoint, requests: Sequence[CheckRequest]) -> EndpointAnswer:
        self.posts.append((endpoint.url, [one.transaction_id for one in requests]))
        if endpoint.url in self.held:
            await self.held[endpoint.url].wait()
        return self.behaves.get(endpoint.url, committed)(requests)

    def _answered(self, one: Check, verdict: EndpointVerdict) -> None:
        assert one.request.transaction_id not in self.verdicts, "answered twice"
        self.verdicts[one.request.transaction_id] = verdict

    def _kept(self, one: Check, verdict: EndpointVerdict) -> None:
        self._answered(one, verdict)
        self.kept.append(one.request.transaction_id)

    def _postponed(self, one: Check, reason: str) -> None:
        assert one.request.transaction_id not in self.verdicts | self.postponed, "it has ended before"
        self.postponed[one.request.transaction_id] = reason

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def put(self, *names: str, **more: Any) -> None:
        self.groups.take([check(name, **more) for name in names])
        await self.settle()

    def actions(self) -> dict[str, Action]:
        return {name: verdict.action for name, verdict in self.verdicts.items()}


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(play())
