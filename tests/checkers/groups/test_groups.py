"""Who is asked about what, when, and together with what. The asker is a fake, the clock a number."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from checkback import CheckRequest, HalfPosition
from checkers.ask import EndpointAnswer, EndpointVerdict
from tests.checkers.groups.scene import COMMIT, ONE, TWO, UNKNOWN, UNREACHABLE, Scene, check, committed, played, refused


def late(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    return EndpointAnswer([EndpointVerdict(UNKNOWN, "late")] * len(requests), "late")


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


def test_two_of_one_id_do_not_go_together_since_answers_say_the_id_alone() -> None:
    """A client has sent it again through another gateway: what is said of one is not said of the other."""

    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=9)
        scene.held[ONE] = asyncio.Event()

        def forgetting(requests: Sequence[CheckRequest]) -> EndpointAnswer:
            scene.verdicts.clear()  # which wants each id once
            return committed(requests)

        scene.behaves[ONE] = forgetting
        await scene.put("a")
        other = check("b")
        other = replace(other, request=replace(other.request, half=HalfPosition(0, 1)))
        scene.groups.take([check("b"), check("c"), other])
        scene.held[ONE].set()
        await scene.settle()
        assert scene.posts == [(ONE, ["a"]), (ONE, ["b", "c"]), (ONE, ["b"])]

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
        scene.announce("http://bills/", "bills", topics=("sent",))  # it lives, and does not answer for paid
        await scene.put("b", group="bills")
        nobody = EndpointVerdict(UNREACHABLE, "no live endpoint of group bills for topic paid is known")
        assert scene.verdicts["b"] == nobody

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


def test_an_endpoint_that_has_not_answered_is_asked_about_few_at_a_time() -> None:
    async def play() -> None:
        scene = Scene(concurrency=1)
        scene.announce(ONE, batch=100)
        await scene.put(*(f"a{number}" for number in range(40)))
        assert [len(names) for _, names in scene.posts] == [10, 30]
        scene.posts.clear()
        scene.behaves[ONE] = late
        await scene.put("b")
        scene.behaves[ONE] = committed
        await scene.put(*(f"c{number}" for number in range(40)))
        assert [len(names) for _, names in scene.posts] == [1, 10, 30]

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


def unsigned(requests: Sequence[CheckRequest]) -> EndpointAnswer:
    """As a stranger answers, who does not know the group's key."""
    return refused(requests)._replace(unsigned=True)


def test_who_does_not_know_the_key_is_passed_over_and_without_another_it_is_unknown() -> None:
    async def play() -> None:
        scene = Scene()
        for url in (ONE, TWO):
            scene.announce(url)
        scene.behaves[TWO] = unsigned
        await scene.put("a")
        assert scene.actions() == {"a": COMMIT}
        scene.behaves[ONE] = unsigned
        await scene.put("b")
        assert scene.verdicts["b"] == EndpointVerdict(UNKNOWN, "refused")
        assert not scene.kept

    played(play)


def test_a_stranger_that_finds_requests_too_large_is_skipped_in_the_end() -> None:
    async def play() -> None:
        scene = Scene()
        scene.announce(ONE)
        scene.announce(TWO, batch=100)

        def too_large(requests: Sequence[CheckRequest]) -> EndpointAnswer:
            return unsigned(requests) if len(requests) == 1 else EndpointAnswer([], alone=True, unsigned=True)

        scene.behaves[TWO] = too_large
        await scene.put(*[f"tx-{number}" for number in range(30)])
        assert set(scene.actions().values()) == {COMMIT}
        before = len([url for url, _ in scene.posts if url == TWO])
        await scene.put("later")
        assert len([url for url, _ in scene.posts if url == TWO]) == before

    played(play)
