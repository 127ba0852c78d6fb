"""The oracle of effects, on data: it must see every way in which a promise can be broken."""

import pytest

from torture.effects.database import Effect
from torture.effects.oracle import Verdict, disordered, judge
from torture.effects.run import EffectsReport

ORDERS = {"a", "b", "c"}
ONCE = {"a": 1, "b": 1, "c": 1}


def test_each_order_with_one_effect_holds() -> None:
    verdict = judge(ORDERS, ONCE, {})
    assert verdict.holds(inbox=True)
    assert (verdict.orders, verdict.effects, verdict.dead) == (3, 3, 0)


def test_a_dead_letter_is_an_end_too() -> None:
    verdict = judge(ORDERS, {"a": 1, "b": 1}, {"c": 1})
    assert verdict.holds(inbox=True)
    assert verdict.dead == 1


@pytest.mark.parametrize(
    ("effects", "dead"),
    [({**ONCE, "a": 2}, {}), (ONCE, {"a": 1}), ({"b": 1, "c": 1}, {"a": 2})],
    ids=["two effects", "effect and dead letter", "two dead letters"],
)
def test_two_ends_are_one_too_many_with_the_inbox_and_counted_without(
    effects: dict[str, int], dead: dict[str, int]
) -> None:
    verdict = judge(ORDERS, effects, dead)
    assert verdict.repeated == ["a"]
    assert not verdict.holds(inbox=True)
    assert verdict.holds(inbox=False)


@pytest.mark.parametrize("inbox", [True, False])
def test_an_order_without_an_end_is_lost(*, inbox: bool) -> None:
    verdict = judge(ORDERS, {"a": 1, "b": 1}, {})
    assert verdict.lost == ["c"]
    assert not verdict.nothing_wrong(inbox=inbox)


@pytest.mark.parametrize(("effects", "dead"), [({**ONCE, "x": 1}, {}), (ONCE, {"x": 1})])
@pytest.mark.parametrize("inbox", [True, False])
def test_an_end_of_what_was_never_committed_has_leaked(
    effects: dict[str, int], dead: dict[str, int], *, inbox: bool
) -> None:
    verdict = judge(ORDERS, effects, dead)
    assert verdict.leaked == ["x"]
    assert not verdict.holds(inbox=inbox)


def test_what_is_still_under_way_is_not_lost_and_no_success() -> None:
    verdict = judge(ORDERS, {"a": 1}, {}).with_waiting({"b", "a"})
    assert (verdict.lost, verdict.waiting) == (["c"], ["b"])
    assert str(verdict) == "1 lost, 0 repeated, 0 leaked, 1 still under way"
    only = judge(ORDERS, {"a": 1, "c": 1}, {}).with_waiting({"b"})
    assert only.nothing_wrong(inbox=True)
    assert not only.holds(inbox=True)


def test_a_run_that_did_not_come_to_rest_has_no_verdict() -> None:
    waiting = judge(ORDERS, {"a": 1, "c": 1}, {}).with_waiting({"b"})
    assert EffectsReport(1, inbox=True, verdict=waiting).inconclusive
    done = judge(ORDERS, ONCE, {})
    assert EffectsReport(1, inbox=True, verdict=done, not_at_rest=["a: sales-0 7"]).inconclusive
    assert EffectsReport(1, inbox=True, verdict=done).holds
    broken = EffectsReport(1, inbox=True, verdict=waiting, defect="Round 1: no consumer came back")
    assert not broken.inconclusive
    assert not broken.holds
    assert not EffectsReport(1, inbox=True).holds


def effect(number: int, place: int, before: int | None, key: str | None = "k", partition: int = 0) -> Effect:
    return Effect(number, f"{key}-{partition}-{place}", partition, key, place, before)


def test_effects_that_each_came_after_the_one_before_are_in_order() -> None:
    in_order = [effect(1, 4, None), effect(2, 3, None, "other"), effect(3, 9, 4), effect(4, 9, None, partition=1)]
    assert disordered(in_order) == []
    without_key = [effect(1, 4, 9, None), effect(2, 3, 9, None)]
    assert disordered(without_key) == []
    done_again = [effect(1, 4, None), effect(2, 9, 4), effect(3, 4, 9), effect(4, 9, 9)]
    assert disordered(done_again) == []


def test_an_effect_that_came_before_its_turn_is_found() -> None:
    late = [effect(1, 4, None), effect(2, 12, 4), effect(3, 9, 12)]
    assert disordered(late) == ["k-0-9", "k-0-12"]
    begun_before_the_other_was_committed = [effect(1, 4, None), effect(2, 9, None)]
    assert disordered(begun_before_the_other_was_committed) == ["k-0-9"]


def test_disorder_is_a_failure_with_the_inbox_and_counted_without() -> None:
    verdict = Verdict(3, 3, 0, disordered=["a"])
    assert not verdict.holds(inbox=True)
    assert verdict.holds(inbox=False)
    assert str(verdict) == "0 lost, 0 repeated, 0 leaked, 1 disordered"
    assert Verdict(3, 3, 0, disordered=[]).holds(inbox=True)
