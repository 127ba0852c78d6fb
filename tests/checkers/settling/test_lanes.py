"""Which verdicts need a lane to be settled, what may be written then, and that no group waits for another's lanes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.wire.checks import CheckRequest
from checkback.wire.lanes import LaneFact
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Action, HalfPosition
from checkers import settling
from checkers.ask import EndpointVerdict
from checkers.settling import MOST_AT_ONCE, MOST_OF_A_GROUP, NO_LEDGER, Lanes, must_settle, resting_on
from tests.checkers.settling.fakes import FakeSettler

HALF, OTHER = HalfPosition(3, 7), HalfPosition(3, 8)
ANSWERS = (Action.COMMIT, Action.ROLLBACK, Action.UNKNOWN, Action.UNREACHABLE)


def lane(number: int = 1) -> str:
    return f"{number:032x}"


def request(
    name: str = "tx", group: str = "orders", of: str = lane(), half: HalfPosition = HALF, attempt: int = 1
) -> Any:
    return CheckRequest(name, group, "paid", None, b"", [], half, attempt, 15, 0, lane=of)


def says(action: Action, fact: LaneFact | None = None) -> EndpointVerdict:
    return EndpointVerdict(action, "so", fact)


@given(st.sampled_from(ANSWERS), st.integers(1, 16), st.sampled_from([None, *LaneFact]), st.sampled_from(["", lane()]))
def test_only_what_decides_or_may_lead_to_a_decision_settles(
    action: Action, attempt: int, fact: LaneFact | None, of: str
) -> None:
    living = action is Action.UNKNOWN and attempt < 15
    expected = bool(of) and fact is None and not living
    assert must_settle(request(of=of, attempt=attempt), says(action, fact)) == expected


@given(st.sampled_from(ANSWERS), st.sampled_from([None, Ledger(), Ledger([HALF]), Ledger([OTHER])]))
def test_what_is_written_rests_on_the_ledger(action: Action, ledger: Ledger | None) -> None:
    written = resting_on(ledger, request(), says(action))
    if ledger is None:
        assert written.fact is None
        assert written.action is (action if action is Action.UNREACHABLE else Action.UNKNOWN)
        assert NO_LEDGER in written.remark
        assert action in written.remark
    elif HALF in ledger:
        assert (written.action, written.fact) == (Action.COMMIT, LaneFact.DELIVERED)
    else:
        assert written == says(action, LaneFact.SETTLED)


async def reached(condition: Callable[[], bool]) -> None:
    """Threads bring it about."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (no event of the loop's says so)
            await asyncio.sleep(0.001)


class Scene:
    """Lanes on a loop, with what came of each check."""

    def __init__(self, ledgers: dict[str, Ledger] | None = None) -> None:
        self.now_ms = 0
        self.settler = FakeSettler(ledgers)
        self.told: Counter[tuple[str, str]] = Counter()
        self.contradicted: list[str] = []
        self.written: dict[str, EndpointVerdict] = {}
        self.lanes = Lanes(
            self.settler.settle,
            lambda: self.now_ms,
            lambda group, result: self.told.update([(group, result)]),
            self.contradicted.append,
        )

    def put(self, asked: CheckRequest, verdict: EndpointVerdict) -> None:
        def then(found: EndpointVerdict) -> None:
            assert asked.transaction_id not in self.written, "ended twice"
            self.written[asked.transaction_id] = found

        self.lanes.settle(asked, verdict, then)

    async def until(self, number: int) -> None:
        await reached(lambda: len(self.written) >= number)


def played(play: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(play())


def test_a_lane_is_settled_once_for_all_its_checks_and_kept() -> None:
    async def play() -> None:
        scene = Scene({lane(): Ledger([HALF])})
        for number in range(5):
            scene.put(request(f"a{number}", half=HALF if number == 0 else OTHER), says(Action.COMMIT))
        await scene.until(5)
        scene.put(request("later"), says(Action.ROLLBACK))
        scene.put(request("living"), says(Action.UNKNOWN))  # it need not be settled, but is: the fact is known
        assert scene.settler.settled == [("orders", lane())]
        facts = {name: (one.action, one.fact) for name, one in scene.written.items()}
        assert facts.pop("a0") == facts.pop("later") == facts.pop("living") == (Action.COMMIT, LaneFact.DELIVERED)
        assert set(facts.values()) == {(Action.COMMIT, LaneFact.SETTLED)}
        assert scene.told == {("orders", "settled"): 1}
        assert scene.contradicted == ["orders"]

    played(play)


def test_the_same_lane_of_another_group_is_another_lane() -> None:
    async def play() -> None:
        scene = Scene({lane(): Ledger()})
        scene.put(request("a"), says(Action.COMMIT))
        scene.put(request("b", "bills"), says(Action.COMMIT))
        await scene.until(2)
        assert sorted(scene.settler.settled) == [("bills", lane()), ("orders", lane())]

    played(play)


def test_a_process_that_takes_its_time_and_one_that_knows_are_not_fenced() -> None:
    async def play() -> None:
        scene = Scene()
        scene.put(request("waits"), says(Action.UNKNOWN))
        scene.put(request("knows"), says(Action.ROLLBACK, LaneFact.SETTLED))
        scene.put(request("did"), says(Action.COMMIT, LaneFact.DELIVERED))
        scene.put(request("none", of=""), says(Action.COMMIT, LaneFact.DELIVERED))
        assert scene.settler.settled == []
        assert scene.written == {
            "waits": says(Action.UNKNOWN),
            "knows": says(Action.ROLLBACK, LaneFact.SETTLED),
            "did": says(Action.COMMIT, LaneFact.DELIVERED),
            "none": says(Action.COMMIT),
        }

    played(play)


def test_an_endpoint_that_says_rollback_and_delivered_at_once_has_delivered(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        scene = Scene()
        scene.put(request("a"), says(Action.ROLLBACK, LaneFact.DELIVERED))
        assert (scene.written["a"].action, scene.contradicted) == (Action.COMMIT, ["orders"])

    played(play)
    assert "which its lane has delivered" in caplog.text


def test_a_thousand_lanes_of_one_group_hold_up_no_other_group() -> None:
    async def play() -> None:
        scene = Scene()
        scene.settler.going.clear()
        for number in range(1_000):
            scene.put(request(f"a{number}", of=lane(number)), says(Action.COMMIT))
        for number in range(2_000, 2_000 + MOST_AT_ONCE):
            scene.put(request(f"b{number}", f"group-{number}", of=lane(number)), says(Action.COMMIT))
        await reached(lambda: len(scene.settler.settled) >= MOST_AT_ONCE)
        assert sum(group == "orders" for group, _ in scene.settler.settled) == MOST_OF_A_GROUP
        scene.settler.going.set()
        await scene.until(1_000 + MOST_AT_ONCE)
        assert scene.settler.most_under_way == MOST_AT_ONCE
        # those of the others did not wait for the thousand: each round had its share of them
        last_of_others = max(at for at, (group, _) in enumerate(scene.settler.settled) if group != "orders")
        assert last_of_others < 3 * MOST_AT_ONCE
        assert len(scene.settler.settled) == 1_000 + MOST_AT_ONCE
        assert not scene.lanes._under_way
        assert not scene.lanes._queues
        assert not scene.lanes._turns

    played(play)


def test_while_kafka_is_away_checks_wait_and_the_lane_is_settled_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_FIRST_PAUSE_MS", 1)

    async def play() -> None:
        scene = Scene({lane(): Ledger()})
        scene.settler.fails = [KafkaUnreachableError("away")] * 3
        scene.put(request("a"), says(Action.ROLLBACK))
        await scene.until(1)
        assert scene.written == {"a": says(Action.ROLLBACK, LaneFact.SETTLED)}
        assert scene.told == {("orders", "failed"): 3, ("orders", "settled"): 1}

    played(play)


@pytest.mark.parametrize("action", ANSWERS[:2])
def test_what_cannot_be_settled_gets_no_verdict(action: Action, caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        scene = Scene({lane(): Ledger()})
        scene.settler.fails = [ConfigurationError("grant write on it"), KafkaUnreachableError("away")]
        scene.put(request("refused"), says(action))
        await scene.until(1)
        scene.settler.going.clear()
        scene.put(request("stuck"), says(action))
        scene.now_ms += 60_000
        scene.settler.going.set()
        await scene.until(2)
        for name, why in (("refused", "grant write on it"), ("stuck", "away")):
            assert (scene.written[name].action, scene.written[name].fact) == (Action.UNKNOWN, None)
            assert why in scene.written[name].remark
            assert action in scene.written[name].remark
        scene.put(request("again"), says(action))  # it is tried again with the next check
        await scene.until(3)
        assert scene.written["again"] == says(action, LaneFact.SETTLED)

    played(play)
    assert "is not settled" in caplog.text


def test_of_very_many_lanes_those_asked_about_long_ago_are_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "_MOST_KNOWN", 2)

    async def play() -> None:
        scene = Scene()
        for at, number in enumerate((1, 2, 1, 3, 1, 2)):
            scene.put(request(f"{at}", of=lane(number)), says(Action.COMMIT))
            await scene.until(at + 1)
        assert [int(name, 16) for _, name in scene.settler.settled] == [1, 2, 3, 2]

    played(play)
