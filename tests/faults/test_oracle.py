"""The oracle, on data: it must see every way in which a promise can be broken."""

import pytest

from torture.oracle import Body, imprint, judge
from torture.run import TortureReport

ONE = Body("orders", b"key", b"value", (("trace", b"1"), ("trace", b"2")))
SENT = {"a": ONE, "b": ONE._replace(value=None)}
DELIVERED = {name: [body] for name, body in SENT.items()}


def test_the_same_on_both_sides_holds() -> None:
    judged = judge(SENT, DELIVERED)
    assert judged.holds
    assert (judged.expected, judged.delivered) == (2, 2)


def test_nothing_sent_and_nothing_delivered_holds() -> None:
    assert judge({}, {}).holds


def test_what_is_missing_is_lost() -> None:
    judged = judge(SENT, {"a": [ONE]})
    assert (judged.lost, judged.holds) == (["b"], False)


def test_a_second_copy_is_repeated() -> None:
    judged = judge(SENT, {**DELIVERED, "a": [ONE, ONE]})
    assert (judged.repeated, judged.delivered, judged.holds) == (["a"], 3, False)


def test_what_nobody_committed_is_leaked() -> None:
    judged = judge(SENT, {**DELIVERED, "c": [ONE]})
    assert (judged.leaked, judged.holds) == (["c"], False)


@pytest.mark.parametrize(
    "other",
    [
        ONE._replace(topic="invoices"),
        ONE._replace(key=None),
        ONE._replace(key=b""),
        ONE._replace(value=b"value "),
        ONE._replace(value=None),
        ONE._replace(headers=(("trace", b"2"), ("trace", b"1"))),
        ONE._replace(headers=(("trace", b"1"),)),
        ONE._replace(headers=(("trace", b"1"), ("trace", None))),
    ],
)
def test_a_single_different_byte_is_seen(other: Body) -> None:
    judged = judge(SENT, {**DELIVERED, "a": [other]})
    assert (judged.changed, judged.holds) == (["a"], False)


def test_it_says_how_many_of_each() -> None:
    assert str(judge(SENT, {"a": [ONE, ONE]})) == "1 lost, 1 repeated, 0 leaked, 0 changed"


def test_a_long_value_is_kept_as_what_tells_it_from_any_other() -> None:
    large = bytes(500_000)
    kept = imprint(large)
    assert kept is not None
    assert len(kept) < 100
    assert len({kept, imprint(large[:-1]), imprint(large[:-1] + b"1"), imprint(bytes(4_097))}) == 4


@pytest.mark.parametrize("value", [None, b"", b"value", bytes(4_096)])
def test_any_other_is_kept_as_it_is(value: bytes | None) -> None:
    assert imprint(value) == value


def test_what_nobody_has_decided_is_not_lost_and_no_success() -> None:
    judged = judge({**SENT, "c": ONE}, {"a": [ONE]}).without_undecided({"b", "a"})
    assert (judged.lost, judged.undecided, judged.holds, judged.nothing_wrong) == (["c"], ["b"], False, False)
    only = judge(SENT, {"a": [ONE]}).without_undecided({"b"})
    assert (only.holds, only.nothing_wrong) == (False, True)
    assert str(only) == "0 lost, 0 repeated, 0 leaked, 0 changed, 1 not decided yet"


def test_a_job_that_did_not_come_back_is_no_slow_machine() -> None:
    waiting = judge(SENT, {"a": [ONE]}).without_undecided({"b"})
    assert TortureReport(1, judgements={"kafka": waiting}).inconclusive
    assert not TortureReport(
        1, judgements={"kafka": waiting}, defect="Within 180 s nothing was delivered."
    ).inconclusive
