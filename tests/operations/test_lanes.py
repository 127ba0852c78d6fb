"""What operators may have written of half messages whose producer may have delivered them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.kafka.topic_reading import reading_consumer
from checkback.operations.lanes import (
    CONTESTED,
    NO_LEDGER,
    Findings,
    LaneFinding,
    OperatorWrite,
    Wish,
    findings,
    lanes_of,
    settled,
)
from checkback.wire.lanes import LaneFact, new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import LANE, Action, HalfPosition
from tests.checkers.settling.fakes import FakeSettler
from tests.job_records import JobRecords
from tests.place import Place

DECIDING = (Action.COMMIT, Action.ROLLBACK, Action.RESUME)


def half(offset: int, partition: int = 0) -> HalfPosition:
    return HalfPosition(partition, offset)


def wish(offset: int) -> Wish:
    return Wish((f"tx-{offset}", "shop", half(offset)))


def found(offset: int, fact: LaneFact | None, why: str = "") -> Findings:
    return {half(offset): LaneFinding("0" * 32, fact, why)}


def test_each_lane_is_settled_once_and_its_ledger_says_what_it_did() -> None:
    settler = FakeSettler({"a": Ledger([half(1)]), "b": Ledger()})
    named = {half(offset): ("shop", lane * 32) for offset, lane in enumerate("aabbc")}
    settler.ledgers = {"a" * 32: Ledger([half(1)]), "b" * 32: Ledger()}
    said = findings(settler.settle, named, contested=[half(0), half(1)])
    assert [(one.fact, one.why) for one in said.values()] == [
        (None, CONTESTED),
        (LaneFact.DELIVERED, ""),
        (LaneFact.SETTLED, ""),
        (LaneFact.SETTLED, ""),
        (None, NO_LEDGER),
    ]
    assert settler.settled == [("shop", lane * 32) for lane in "abc"]


@given(st.sampled_from(DECIDING))
def test_what_its_lane_has_delivered_is_committed_whatever_was_asked_for(action: Action) -> None:
    done = settled(action, [wish(1)], lambda _: found(1, LaneFact.DELIVERED))
    assert done.writes == (OperatorWrite(Action.COMMIT, LaneFact.DELIVERED, [wish(1).row]),)
    assert done.delivered == (() if action is Action.COMMIT else (wish(1).row,))


@given(st.sampled_from(DECIDING))
def test_what_is_settled_and_what_names_no_lane_is_as_was_asked_for(action: Action) -> None:
    done = settled(action, [wish(1), wish(2)], lambda _: found(1, LaneFact.SETTLED))
    assert done.writes == (
        OperatorWrite(action, LaneFact.SETTLED, [wish(1).row]),
        OperatorWrite(action, None, [wish(2).row]),
    )


@given(st.sampled_from(DECIDING), st.sampled_from([CONTESTED, NO_LEDGER]), st.sampled_from([None, *LaneFact]))
def test_where_nobody_can_know_an_operator_says_what_he_has_seen(
    action: Action, why: str, told: LaneFact | None
) -> None:
    done = settled(action, [wish(1)], lambda _: found(1, None, why), told)
    if told is None or (action is Action.RESUME and why == CONTESTED):
        assert (done.writes, done.unknown) == ((), ((wish(1).row, why),))
    else:
        says = Action.COMMIT if told is LaneFact.DELIVERED else action
        assert done.writes == (OperatorWrite(says, told, [wish(1).row]),)


@given(st.sampled_from(LaneFact), st.sampled_from(LaneFact))
def test_what_the_ledger_says_counts_more_than_what_was_seen(fact: LaneFact, told: LaneFact) -> None:
    done = settled(Action.COMMIT, [wish(1)], lambda _: found(1, fact), told)
    assert [one.fact for one in done.writes] == [fact]


def test_redelivery_settles_nothing() -> None:
    def never(_: Sequence[Wish]) -> Findings:
        raise AssertionError("nobody may be fenced for it")

    assert settled(Action.REDELIVER, [wish(1)], never).writes == (OperatorWrite(Action.REDELIVER, None, [wish(1).row]),)


def test_lanes_are_read_where_the_half_messages_lie(place: Place) -> None:
    lanes = [new_lane() for _ in range(4)]
    with JobRecords(place) as records:
        halves = [records.half(f"tx-{n}", more=((LANE, lane.encode()),), group=f"g{n}") for n, lane in enumerate(lanes)]
        plain = records.half("plain", partition=1)
        wrong = records.half("wrong", partition=1, more=((LANE, b"none"),))
    gone = [HalfPosition(1, 99), HalfPosition(7, 0)]
    consumer = reading_consumer(place.bootstrap_servers)
    asked = [halves[0], halves[3], plain, wrong, *gone]
    assert lanes_of(consumer, place.topics, asked) == {halves[0]: ("g0", lanes[0]), halves[3]: ("g3", lanes[3])}
    assert lanes_of(consumer, place.topics, gone) == {}
    consumer.close()


@pytest.mark.parametrize("apart", [1, 500])
def test_half_messages_far_apart_are_all_found(place: Place, apart: int) -> None:
    lane = new_lane()
    with JobRecords(place) as records:
        producer = records.place.producer()
        first = records.half("tx", more=((LANE, lane.encode()),))
        for number in range(apart):
            producer.send(place.topics.half, b"%d" % number, partition=0)
        producer.close()
        last = records.half("tx", more=((LANE, lane.encode()),))
    consumer = reading_consumer(place.bootstrap_servers)
    assert set(lanes_of(consumer, place.topics, [first, last])) == {first, last}
    consumer.close()
