"""A check whose lane has to be settled keeps its room until then, and has one end all the same."""

import asyncio

from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action, HalfPosition
from checkers.ask import EndpointVerdict
from checkers.check import Check
from checkers.settling import Then
from tests.checkers.groups.scene import COMMIT, ONE, UNREACHABLE, Scene, played


class Settling:
    """Keeps what waits for a lane, until it is told what came of it."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[EndpointVerdict, Then]] = {}

    def settle(self, request: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
        assert request.transaction_id not in self.waiting
        self.waiting[request.transaction_id] = verdict, then

    def end(self, name: str, action: Action | None = None, fact: LaneFact = LaneFact.SETTLED) -> None:
        verdict, then = self.waiting.pop(name)
        then(EndpointVerdict(action or verdict.action, verdict.remark, fact))


def of_lane(name: str, origin: object = None) -> Check:
    at = HalfPosition(0, ord(name))
    return Check(CheckRequest(name, "orders", "paid", None, b"v", [], at, 1, 15, 0, lane="0" * 32), origin)


def test_a_check_keeps_its_room_until_its_lane_is_settled() -> None:
    async def play() -> None:
        lanes = Settling()
        scene = Scene(queue=2, settle=lanes.settle)
        scene.announce(ONE)
        scene.groups.take([of_lane("a"), of_lane("b"), of_lane("c")])
        await scene.settle()
        assert (scene.verdicts, list(scene.postponed)) == ({}, ["c"])
        assert scene.groups.room("orders", "paid") == 0
        lanes.end("a")
        assert scene.verdicts == {"a": EndpointVerdict(COMMIT, "", LaneFact.SETTLED)}
        assert scene.groups.room("orders", "paid") == 1
        lanes.end("b")
        assert scene.groups._groups == {}

    played(play)


def test_a_newer_check_of_a_transaction_whose_lane_is_settled_is_answered_with_it() -> None:
    async def play() -> None:
        lanes = Settling()
        scene = Scene(settle=lanes.settle)
        scene.announce(ONE)
        scene.groups.take([of_lane("a", 1)])
        await scene.settle()
        scene.groups.take([of_lane("a", 2)])
        await scene.settle()
        assert len(scene.posts) == 1
        lanes.end("a")
        assert (scene.actions(), scene.dropped, scene.groups._groups) == ({"a": COMMIT}, [2], {})

    played(play)


def test_what_a_lane_has_delivered_is_answered_though_nobody_can_be_asked() -> None:
    async def play() -> None:
        lanes = Settling()
        scene = Scene(settle=lanes.settle)
        scene.groups.take([of_lane("a"), of_lane("b")])
        await scene.settle()
        assert scene.verdicts == {}
        lanes.end("a", COMMIT, LaneFact.DELIVERED)
        lanes.end("b")
        assert scene.actions() == {"a": COMMIT, "b": UNREACHABLE}
        assert scene.verdicts["b"].fact is LaneFact.SETTLED
        assert scene.kept == ["b"]
        assert scene.groups._groups == {}

    played(play)


def test_a_newer_check_is_asked_about_when_nobody_could_be_asked_about_the_first() -> None:
    async def play() -> None:
        lanes = Settling()
        scene = Scene(settle=lanes.settle)
        scene.groups.take([of_lane("a", 1)])
        await scene.settle()
        scene.groups.take([of_lane("a", 2)])
        scene.announce(ONE)
        lanes.end("a")
        assert scene.kept == ["a"]
        scene.verdicts.clear()
        await scene.settle()
        lanes.end("a")
        assert (scene.actions(), scene.groups._groups) == ({"a": COMMIT}, {})

    played(play)


def test_beyond_a_hundred_nobody_is_settled_for_checks_that_nobody_answers() -> None:
    async def play() -> None:
        asked = asyncio.Event()

        def settle(_: CheckRequest, verdict: EndpointVerdict, then: Then) -> None:
            asked.set()
            then(verdict)

        scene = Scene(settle=settle)
        scene.groups.take([of_lane(chr(200 + number)) for number in range(100)])
        await scene.settle()
        assert len(scene.kept) == 100
        asked.clear()
        scene.groups.take([of_lane("a")])
        await scene.settle()
        assert (list(scene.postponed), asked.is_set()) == (["a"], False)

    played(play)
