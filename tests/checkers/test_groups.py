"""Who is asked about what, when, and together with what. The asker is a fake, the clock a number."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from checkback import CheckRequest, HalfPosition
from checkback.wire.checks import Announcement
from checkback.wire.protocol import Action
from checkers import (
    Asker,
    Check,
    CheckEnds,
    Endpoint,
    EndpointAnswer,
    EndpointDirectory,
    EndpointVerdict,
    Groups,
    GroupShares,
    Shares,
)
from checkers import groups as groups_module

ONE, TWO = "http://one/", "http://two/"
COMMIT, UNKNOWN, UNREACHABLE = Action.COMMIT, Action.UNKNOWN, Action.UNREACHABLE


def check(name: str, group: str = "orders", topic: str = "paid", value: bytes = b"v") -> Check:
    return Check(CheckRequest(name, group, topic, None, value, [], HalfPosition(0, 0), 1, 15, 0))


def refused(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(UNREACHABLE, "refused")] * len(requests), "refused")


def late(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(UNKNOWN, "late")] * len(requests), "late")


def committed(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(COMMIT, "")] * len(requests))


class Scene(Asker):
    """Groups with an asker that does what it is told, a clock, and what came of it."""

    def __init__(self, *, concurrency: int = 2, queue: int = 1_000, shares: GroupShares | None = None) -> None:
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
            CheckEnds(self._answered, self._postponed, self._kept, lambda one: self.dropped.append(one.origin)),
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


def test_each_check_goes_alone_to_an_endpoint_that_takes_one() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE)
        await scene.put("a", "b", "c")
        assert scene.posts == [(ONE, ["a"]), (ONE, ["b"]), (ONE, ["c"])]
        assert set(scene.actions().values()) == {COMMIT}
        assert scene.groups._groups == {}

    played(play)


def test_what_waits_goes_together_and_nothing_waits_for_more() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=3)
        scene.held[ONE] = asyncio.Event()
        await scene.put("a")
        assert scene.posts == [(ONE, ["a"])]
        await scene.put("b", "c", "d", "e")
        scene.held[ONE].set()
        await scene.settle()
        assert scene.posts == [(ONE, ["a"]), (ONE, ["b", "c", "d"]), (ONE, ["e"])]
        assert len(scene.verdicts) == 5

    played(play)


def test_groups_are_not_mixed_and_topics_only_when_the_endpoint_is_the_same() -> None:
    async def play() -> None:
        scene = Scene(concurrency=9)
        scene.announce(ONE, batch=100)
        scene.announce(TWO, batch=100, topics=("sent",))
        scene.announce("http://bills/", "bills", batch=100)
        scene.groups.take(
            [check("a"), check("b", topic="back"), check("c", "bills"), check("d", topic="sent"), check("e")]
        )
        await scene.settle()
        assert sorted(scene.posts) == [("http://bills/", ["c"]), (ONE, ["a", "b"]), (ONE, ["e"]), (TWO, ["d"])]

    played(play)


def test_large_checks_do_not_go_together() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE, batch=100)
        await scene.put("a", "b", "c", value=bytes(600_000))
        assert [len(names) for _, names in scene.posts] == [1, 1, 1]

    played(play)


def test_no_more_than_the_concurrency_is_under_way_and_no_more_than_the_queue_waits() -> None:
    async def play() -> None:
        scene = Scene(concurrency=2, queue=3)
        scene.announce(ONE)
        scene.held[ONE] = asyncio.Event()
        await scene.put("a", "b", "c", "d")
        assert scene.posts == [(ONE, ["a"]), (ONE, ["b"])]
        assert scene.postponed == {"d": "too many checks of group orders are waiting"}
        assert scene.groups.room("orders", "paid") == 0
        scene.held[ONE].set()
        await scene.settle()
        assert scene.actions() == {"a": COMMIT, "b": COMMIT, "c": COMMIT}
        assert scene.groups.room("orders", "paid") == 3

    played(play)


def test_a_group_that_hangs_holds_up_no_other() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE)
        scene.announce(TWO, "bills")
        scene.held[ONE] = asyncio.Event()
        await scene.put("a", "b", "c")
        await scene.put("d", group="bills")
        assert scene.actions() == {"d": COMMIT}
        scene.held[ONE].set()
        await scene.settle()

    played(play)


def test_the_next_endpoint_is_asked_when_one_cannot_be_reached() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE, batch=1)
        scene.announce(TWO, batch=100)
        scene.behaves[TWO] = refused
        await scene.put("a", "b")
        assert scene.posts == [(TWO, ["a", "b"]), (ONE, ["a"]), (ONE, ["b"])]
        assert scene.actions() == {"a": COMMIT, "b": COMMIT}

    played(play)


def test_none_left_is_unreachable_and_says_what_the_last_did() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE)
        scene.announce(TWO)
        scene.behaves = {ONE: refused, TWO: refused}
        await scene.put("a")
        assert scene.posts == [(TWO, ["a"]), (ONE, ["a"])]
        assert scene.verdicts == {"a": EndpointVerdict(UNREACHABLE, "refused")}
        await scene.put("b", group="bills")
        assert scene.verdicts["b"] == EndpointVerdict(UNREACHABLE, "no live endpoint of group bills is known")

    played(play)


def test_an_endpoint_that_fails_five_times_is_skipped_and_tried_again_with_one() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=100)
        scene.behaves[ONE] = late
        for number in range(5):
            await scene.put(f"late-{number}")
        assert set(scene.actions().values()) == {UNKNOWN}
        await scene.put("at once")
        assert len(scene.posts) == 5
        assert scene.verdicts["at once"].action is UNREACHABLE
        assert "is skipped for now; late" in scene.verdicts["at once"].remark
        scene.now_ms = 10_000
        assert scene.groups.standing()["orders"].endpoints[0].state == "skipped", "it has not answered yet"
        scene.behaves[ONE] = committed
        await scene.put("a", "b", "c")
        assert scene.posts[5:] == [(ONE, ["a"]), (ONE, ["b", "c"])]
        assert len(scene.groups._breakers) == 0

    played(play)


def test_while_it_is_tried_the_others_are_unreachable_at_once() -> None:
    async def play() -> None:
        scene = Scene(concurrency=9)
        scene.announce(ONE)
        scene.behaves[ONE] = refused
        for number in range(5):
            await scene.put(f"refused-{number}")
        scene.now_ms = 10_000
        scene.held[ONE] = asyncio.Event()
        await scene.put("a", "b")
        assert scene.posts[5:] == [(ONE, ["a"])]
        assert scene.actions()["b"] is UNREACHABLE
        scene.held[ONE].set()
        await scene.settle()
        scene.now_ms = 29_999
        await scene.put("c")
        assert scene.posts[6:] == []
        scene.now_ms = 30_000
        await scene.put("d")
        assert scene.posts[6:] == [(ONE, ["d"])]

    played(play)


def test_others_of_the_group_are_asked_instead() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE)
        scene.announce(TWO)
        scene.behaves[TWO] = refused
        for number in range(5):
            await scene.put(f"first-{number}")
        scene.posts.clear()
        scene.now_ms = 10_000  # it could be tried, but one that is well is there
        await scene.put("a")
        assert scene.posts == [(ONE, ["a"])]

    played(play)


def test_thousands_that_end_at_once_give_way_to_others() -> None:
    async def play() -> None:
        scene = Scene(queue=10_000)
        seen: list[int] = []
        scene.groups.take([check(f"a-{number}") for number in range(1_000)])
        asyncio.get_running_loop().call_soon(lambda: seen.append(len(scene.verdicts) + len(scene.postponed)))
        await scene.settle()
        assert seen[0] < 1_000
        assert len(scene.verdicts) + len(scene.postponed) == 1_000

    played(play)


def test_an_asker_that_raises_is_unknown() -> None:
    def broken(_: Sequence[CheckRequest]) -> EndpointAnswer:
        raise ZeroDivisionError

    async def play() -> None:
        scene = Scene()
        scene.announce(ONE, batch=9)
        scene.behaves[ONE] = broken
        await scene.put("a", "b")
        assert scene.actions() == {"a": UNKNOWN, "b": UNKNOWN}

    played(play)


def of_groups(scene: Scene, number: int) -> list[str]:
    """Groups with an endpoint each that hangs."""
    names = [f"hangs-{group}" for group in range(number)]
    for name in names:
        scene.announce(f"http://{name}/", name)
        scene.held[f"http://{name}/"] = asyncio.Event()
    return names


def test_forty_groups_that_hang_leave_connections_to_the_others() -> None:
    async def play() -> None:
        scene = Scene(concurrency=32, shares=GroupShares(connections=Shares(250)))
        hanging = of_groups(scene, 40)
        for name in hanging:
            await scene.put(*(f"{name}-{number}" for number in range(50)), group=name)
        assert len(scene.posts) <= 250
        scene.announce(ONE)
        await scene.put(*(f"well-{number}" for number in range(50)))
        assert scene.actions() == {f"well-{number}": COMMIT for number in range(50)}
        for event in scene.held.values():
            event.set()
        while len(scene.verdicts) < 50 + 40 * 50:
            await scene.settle()
        assert set(scene.actions().values()) == {COMMIT}
        assert scene.groups._groups == scene.groups._unconnected == {}
        assert scene.groups._connections.free == 250
        assert scene.groups._bytes.free == scene.groups._bytes.total

    played(play)


def test_a_group_that_waits_for_a_connection_gets_the_next_one_and_nobody_is_blamed() -> None:
    async def play() -> None:
        scene = Scene(shares=GroupShares(connections=Shares(1)))
        [hanging] = of_groups(scene, 1)
        await scene.put("hangs", group=hanging)
        scene.announce(ONE)
        await scene.put("a", "b")
        assert scene.verdicts == {}
        scene.held[f"http://{hanging}/"].set()
        await scene.settle()
        assert scene.actions() == {"hangs": COMMIT, "a": COMMIT, "b": COMMIT}
        assert len(scene.groups._breakers) == 0

    played(play)


def test_queues_count_bytes_and_each_group_has_its_share() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1, shares=GroupShares(bytes=Shares(1_000_000)))
        [hanging] = of_groups(scene, 1)
        await scene.put(*(f"large-{number}" for number in range(10)), group=hanging, value=bytes(90_000))
        assert 5 <= len(scene.postponed) <= 7
        assert "too many bytes" in scene.postponed["large-9"]
        assert scene.groups.room(hanging, "paid") == 0
        scene.announce(ONE, batch=9)
        await scene.put("a", "b", value=bytes(90_000))
        assert scene.actions()["a"] is scene.actions()["b"] is COMMIT
        scene.held[f"http://{hanging}/"].set()
        await scene.settle()
        assert scene.groups._bytes.free == 1_000_000

    played(play)


def test_a_check_that_cannot_be_asked_whole_is_not_kept_whole() -> None:
    kept = check("a", value=bytes(7_000_000))
    assert (kept.request.value, kept.request.left_out > 0, kept.size) == (None, True, 1_024)
    assert not check("b", value=bytes(6_000_000)).request.left_out


def test_what_we_have_run_out_of_is_no_fault_of_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_LACKING_SECONDS", 0.0)

    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=2)
        lacking = 20

        def out_of_files(requests: Sequence[CheckRequest]) -> EndpointAnswer:
            nonlocal lacking
            lacking -= 1
            return committed(requests) if lacking < 0 else EndpointAnswer([], lacking="too many open files")

        scene.behaves[ONE] = out_of_files
        await scene.put("a", "b", "c")
        while len(scene.verdicts) < 3:
            await scene.settle()
        assert set(scene.actions().values()) == {COMMIT}
        assert scene.posts == [(ONE, ["a", "b"])] * 21 + [(ONE, ["c"])]
        assert len(scene.groups._breakers) == 0

    played(play)


def test_a_probe_that_was_not_sent_is_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_LACKING_SECONDS", 0.0)

    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE)
        scene.behaves[ONE] = refused
        for number in range(5):
            await scene.put(f"refused-{number}")
        scene.now_ms = 10_000
        answers = [EndpointAnswer([], lacking="too many open files"), EndpointAnswer([EndpointVerdict(COMMIT, "")])]
        scene.behaves[ONE] = lambda _: answers.pop(0)
        await scene.put("a")
        while "a" not in scene.verdicts:
            await scene.settle()
        assert scene.actions()["a"] is COMMIT

    played(play)


def test_checks_that_are_too_large_together_are_asked_alone() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=9)
        scene.behaves[ONE] = lambda requests: (
            EndpointAnswer([], alone=True) if len(requests) > 1 else committed(requests)
        )
        await scene.put("a", "b", "c")
        assert [names for _, names in scene.posts] == [["a", "b", "c"], ["a"], ["b"], ["c"]]
        assert set(scene.actions().values()) == {COMMIT}

    played(play)


def test_of_many_dead_endpoints_some_are_tried_and_the_others_cost_nothing() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        for number in range(1_000):
            scene.announce(f"http://{number}/")
            scene.behaves[f"http://{number}/"] = refused
        await scene.put("a")
        assert len(scene.posts) == 8
        assert scene.actions() == {"a": UNREACHABLE}

    played(play)


def test_headers_and_keys_count_when_checks_go_together() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE, batch=100)
        large = [check(name) for name in "abc"]
        requests = [dataclasses.replace(one.request, headers=[("h", bytes(600_000))]) for one in large]
        scene.groups.take([Check(request) for request in requests])
        await scene.settle()
        assert [len(names) for _, names in scene.posts] == [1, 1, 1]

    played(play)


def test_of_a_group_that_is_away_a_few_checks_are_answered_and_the_others_wait() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.put(*(f"a-{number}" for number in range(250)), group="away")
        assert (len(scene.verdicts), len(scene.postponed)) == (100, 150)
        assert set(scene.actions().values()) == {UNREACHABLE}
        assert set(scene.postponed.values()) == {"no live endpoint of group away is known"}
        await scene.put("b", group="another")
        assert scene.actions()["b"] is UNREACHABLE
        scene.now_ms += 30_000
        await scene.put("c", group="away")
        assert scene.actions()["c"] is UNREACHABLE
        assert [*scene.verdicts] == scene.kept, "they wait as well"
        assert scene.groups._bytes.free == scene.groups._bytes.total

    played(play)


def test_there_is_room_for_checks_of_whoever_can_be_asked() -> None:
    async def play() -> None:
        scene = Scene(concurrency=10, queue=20)
        assert scene.groups.room("orders", "paid") == 0
        scene.announce(ONE, topics=("paid",))
        assert (scene.groups.room("orders", "paid"), scene.groups.room("orders", "sent")) == (20, 0)
        scene.behaves[ONE] = refused
        await scene.put("a", "b", "c", "d", "e")
        assert scene.groups.room("orders", "paid") == 0
        scene.now_ms += 10_000
        assert scene.groups.room("orders", "paid") == 1
        scene.behaves[ONE] = committed
        await scene.put("f")
        assert scene.groups.room("orders", "paid") == 20

    played(play)


def test_one_that_was_answered_before_is_kept_however_many_are_away() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.put(*(f"a-{number}" for number in range(101)))
        again = check("again")
        again.answered = True
        scene.groups.take([again])
        await scene.settle()
        assert (len(scene.kept), scene.kept[-1], len(scene.postponed)) == (101, "again", 1)

    played(play)


@pytest.mark.parametrize(("behaves", "posts"), [(committed, 1), (refused, 2)])
def test_a_transaction_is_not_asked_about_twice_at_once(
    behaves: Callable[[Sequence[CheckRequest]], EndpointAnswer], posts: int
) -> None:
    async def play() -> None:
        scene = Scene(concurrency=9)
        scene.announce(ONE)
        scene.held[ONE], scene.behaves[ONE] = asyncio.Event(), behaves
        first, second, third = (check("a") for _ in range(3))
        first.answered = True  # it was kept, and is asked since somebody is there
        second.origin, third.origin = "second", "third"
        for one in (first, second, third):
            scene.groups.take([one])
            await scene.settle()
        assert scene.posts == [(ONE, ["a"])]
        assert scene.dropped == ["second"], "the third is asked in its place, if need be"
        scene.groups._keep = lambda *_: None
        scene.held[ONE].set()
        await scene.settle()
        assert scene.posts == [(ONE, ["a"])] * posts
        assert scene.dropped == ["second", "third"][: 3 - posts]
        assert scene.groups._groups == {}
        assert scene.groups._bytes.held("orders") == 0

    played(play)
