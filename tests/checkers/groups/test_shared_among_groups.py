"""What groups have together is shared, and what we lack is nobody's fault."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

import pytest

from checkback import CheckRequest
from checkers import groups as groups_module
from checkers.ask import EndpointAnswer, EndpointVerdict
from checkers.check import Check
from checkers.http.shares import GroupShares, Shares
from tests.checkers.groups.scene import COMMIT, ONE, UNREACHABLE, Scene, check, committed, played, refused


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
        assert set(scene.postponed.values()) == {"no live endpoint of group away for topic paid is known"}
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
