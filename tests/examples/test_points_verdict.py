"""What the points example's verdict finds, who is killed when, and when all is at rest."""

from collections.abc import Sequence

import pytest

from checkback.consumer import TopicPartition
from examples.points.kills import plan
from examples.points.rest import Look, Rest, in_job
from examples.points.verdict import Points, Verdict, judge

ORDERS = [Points(1, "ada", 10), Points(2, "bert", 20), Points(3, "ada", 5)]


def judged(bookings: Sequence[Points], **accounts: int) -> Verdict:
    return judge(ORDERS, bookings, {"ada": 15, "bert": 20, **accounts})


def only(verdict: Verdict) -> dict[str, object]:
    """What it has found."""
    return {name: found for name, found in verdict._asdict().items() if found}


def test_kept_in_any_order() -> None:
    verdict = judged(ORDERS[::-1])
    assert verdict.kept
    assert only(verdict) == {}
    assert list(verdict.sentences()) == []


def test_missing() -> None:
    verdict = judged(ORDERS[1:], ada=5)
    assert not verdict.kept
    assert only(verdict) == {"missing": (1,), "accounts": {"ada": (5, 15)}}
    assert list(verdict.sentences()) == [
        "1 orders were committed and without points: 1.",
        "ada has 5 points and should have 15.",
    ]


def test_missing_though_the_account_is_right() -> None:
    assert only(judged(ORDERS[1:])) == {"missing": (1,)}


def test_doubled() -> None:
    verdict = judged([*ORDERS, ORDERS[1]], bert=40)
    assert not verdict.kept
    assert only(verdict) == {"doubled": (2,), "accounts": {"bert": (40, 20)}}


def test_as_many_bookings_as_orders_but_not_of_the_same() -> None:
    assert only(judged([ORDERS[0], ORDERS[0], ORDERS[1]])) == {"missing": (3,), "doubled": (1,)}


@pytest.mark.parametrize("booked", [Points(2, "bert", 21), Points(2, "ada", 20)])
def test_wrong(booked: Points) -> None:
    verdict = judged([ORDERS[0], booked, ORDERS[2]])
    assert not verdict.kept
    assert only(verdict) == {"wrong": (2,)}


def test_never_committed() -> None:
    verdict = judged([*ORDERS, Points(4, "cleo", 7)], cleo=7)
    assert not verdict.kept
    assert only(verdict) == {"unknown": (4,), "accounts": {"cleo": (7, 0)}}


def test_the_account_alone() -> None:
    verdict = judged(ORDERS, ada=14)
    assert not verdict.kept
    assert only(verdict) == {"accounts": {"ada": (14, 15)}}


def test_an_account_that_is_not_there() -> None:
    assert only(judge(ORDERS, ORDERS, {"bert": 20})) == {"accounts": {"ada": (0, 15)}}


def test_it_names_not_all_of_many() -> None:
    (sentence,) = judge([Points(number, "ada", 0) for number in range(50)], [], {}).sentences()
    assert sentence.startswith("50 orders were committed and without points: 0, 1, ")
    assert sentence.endswith(", 19 and 30 more.")


@pytest.mark.parametrize("seconds", [1.0, 6.0, 60.0])
def test_shop_and_service_are_both_killed(seconds: float) -> None:
    for seed in range(50):
        kills = plan("shop", ("one", "two"), seconds, seed)
        victims = {kill.victim for kill in kills}
        assert len(kills) == max(2, round(seconds / 4))
        assert "shop" in victims
        assert victims & {"one", "two"}
        assert sorted(kill.at for kill in kills) == [kill.at for kill in kills]
        assert all(0 < kill.at < seconds for kill in kills)
        assert plan("shop", ("one", "two"), seconds, seed) == kills


def look(batch: int, end: int = 5, waits: str = "") -> Look:
    return Look(waits, {TopicPartition("points", 0): end}, batch)


def test_at_rest_when_two_batches_have_found_nothing_new() -> None:
    rest = Rest()
    assert [rest.reached(look(batch)) for batch in (3, 3, 4, 5)] == [False, False, False, True]


def test_not_at_rest_while_a_topic_grows() -> None:
    rest = Rest()
    assert [rest.reached(look(batch, end)) for batch, end in ((3, 5), (5, 6), (6, 6), (7, 6))] == [
        *(False, False, False),
        True,
    ]


def test_not_at_rest_while_anything_waits() -> None:
    rest = Rest()
    looks = [look(3), look(5, waits="1 undecided transactions"), look(6), look(7), look(8)]
    assert [rest.reached(one) for one in looks] == [False, False, False, False, True]


def test_what_the_job_does_not_say_is_not_nothing() -> None:
    unread = "an unknown number of half messages and ops that the job has not read"
    uncounted = "an unknown number of undecided transactions"
    known = {"checkback_batch": 7.0, "checkback_backlog_records": 0.0, "checkback_state_bytes": 0.0}
    assert in_job(known) == []
    assert in_job({**known, "checkback_delayed_messages": 2.0}) == ["2 failed orders that wait for their time"]
    assert in_job({"checkback_batch": 7.0}) == [unread, uncounted]
    assert in_job({"checkback_batch": 7.0, "checkback_backlog_records": 0.0}) == [uncounted]
    assert in_job({}) == ["a job that does not answer, or has ended no batch yet"]
