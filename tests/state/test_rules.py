"""Every rule of half messages, ops and segments by name; those of checks are in ``test_check_rules``."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.state import reference
from tests.state.ops import CHECK_UNKNOWN, COMMIT, ROLLBACK, UNKNOWN
from tests.state.records import Broken, Driver, Half, Message, Op, Said
from tests.state.small import POLICY, checking, opened, says_nothing

# Ops


def test_commit_delivers() -> None:
    half = Half(7, "tx-7", "orders", "paid", 2, b"k", b"v", "[]", -1, -1)
    driver = Driver(POLICY)
    assert says_nothing(driver.step(5, half))
    said = driver.step(9, Op("commit", half_offset=7, transaction_id="tx-7"))
    assert said.delivered == [Message(7, "tx-7", "orders", "paid", 2, b"k", b"v", "[]", ingested_ms=5)]
    assert (said.counts, said.ledger) == ({"op": 1, "applied": 1, "committed": 1}, {7: "committed"})


def test_rollback_discards() -> None:
    said = opened().step(1, ROLLBACK)
    assert says_nothing(said)
    assert (said.counts, said.ledger) == ({"op": 1, "applied": 1, "rolled_back": 1}, {0: "rolled_back"})


def test_a_decided_message_is_never_checked() -> None:
    driver = opened()
    driver.step(1, COMMIT)
    assert says_nothing(driver.step(POLICY.transaction_timeout_ms))


def test_an_op_in_the_log_goes_before_a_timer_that_is_due() -> None:
    said = opened().step(POLICY.age_limit_ms, COMMIT)
    assert len(said.delivered) == 1
    assert not said.parked


@pytest.mark.parametrize("between_ms", [0, 1, POLICY.early_op_ttl_ms - 1])
def test_commit_before_half_waits_then_delivers(between_ms: int) -> None:
    driver = Driver(POLICY)
    waiting = driver.step(1, COMMIT)
    assert says_nothing(waiting)
    assert waiting.ledger == {}
    said = driver.step(1 + between_ms, Half())
    assert [message.ingested_ms for message in said.delivered] == [1 + between_ms]


def test_an_op_that_waited_as_long_as_it_may_still_counts_when_its_half_comes_with_the_batch() -> None:
    driver = Driver(POLICY)
    driver.step(1, COMMIT)
    assert driver.step(1 + 2 * POLICY.early_op_ttl_ms, Half()).delivered


@pytest.mark.parametrize("stranger", [Op(transaction_id="tx-2"), Op(group="others")])
def test_a_foreign_op_is_rejected_and_changes_nothing(stranger: Op) -> None:
    driver = opened()
    said = driver.step(1, replace(stranger, op_offset=4, value=b"remark", headers="[]"))
    [rejected] = said.rejected
    assert (rejected.op_offset, rejected.reason) == (4, reference.FOREIGN)
    assert (rejected.value, rejected.headers, rejected.action_and_source) == (b"remark", "[]", "commit/producer")
    assert not said.delivered
    assert (said.ledger, said.timer_ms) == ({0: "open"}, POLICY.transaction_timeout_ms)
    assert driver.step(2, COMMIT).delivered


def test_a_foreign_answer_leaves_the_check_outstanding() -> None:
    driver, now_ms = checking()
    said = driver.step(now_ms + 1, replace(CHECK_UNKNOWN, group="others"))
    assert (said.ledger, said.timer_ms) == ({0: "checking"}, now_ms + POLICY.check_answer_ttl_ms)


def test_a_foreign_op_that_came_early_is_rejected_when_the_half_comes() -> None:
    driver = Driver(POLICY)
    assert says_nothing(driver.step(1, Op(transaction_id="stranger")))
    said = driver.step(2, Half())
    assert [rejected.reason for rejected in said.rejected] == [reference.FOREIGN]
    assert said.ledger == {0: "open"}


@pytest.mark.parametrize(("first", "second"), [("commit", "rollback"), ("rollback", "commit")])
def test_the_first_decision_wins_by_op_offset_and_the_contradicting_one_is_rejected(first: str, second: str) -> None:
    # in the order of the op topic, whatever the order of arrival
    said = opened().step(1, Op(second, op_offset=9), Op(first, op_offset=8))
    assert len(said.delivered) == (first == "commit")
    assert [(r.op_offset, r.reason) for r in said.rejected] == [(9, reference.CONFLICT)]
    assert (said.counts["conflict"], said.counts["rejected"]) == (1, 1)


def test_ops_are_ordered_between_those_that_waited_and_those_that_come_with_the_half() -> None:
    driver = Driver(POLICY)
    driver.step(1, Op("rollback", op_offset=5))
    said = driver.step(2, Half(), Op("commit", op_offset=3))
    assert said.ledger == {0: "committed"}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("says", ["commit", "rollback"])
def test_the_same_decision_once_more_is_a_duplicate(says: str, *, apart: bool) -> None:
    driver = opened()
    said = Said()
    batches = [[Op(says, op_offset=1)], [Op(says, op_offset=2)]]
    for batch in batches if apart else [batches[0] + batches[1]]:
        said.add(driver.step(1, *batch))
    assert (len(said.delivered), said.counts["duplicate"]) == (says == "commit", 1)
    assert not said.rejected


def test_a_decision_against_a_parked_message_is_a_conflict() -> None:
    driver = opened(replace(POLICY, age_limit_ms=10))
    driver.step(10, Half(offset=1, transaction_id="other"))
    said = driver.step(11, COMMIT)
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]
    assert said.ledger[0] == "parked"


def test_unknown_from_the_producer_changes_nothing() -> None:
    said = opened().step(1, UNKNOWN)
    assert says_nothing(said)
    assert (said.counts, said.ledger) == ({"op": 1, "without_effect": 1, "unknown": 1}, {0: "open"})
    assert said.timer_ms == POLICY.transaction_timeout_ms


def test_an_early_op_expires_with_a_reason() -> None:
    driver = Driver(POLICY)
    waiting = driver.step(5, replace(COMMIT, op_offset=3))
    assert waiting.timer_ms == 5 + POLICY.early_op_ttl_ms
    assert says_nothing(driver.step(waiting.timer_ms - 1))
    said = driver.step(waiting.timer_ms)
    assert [(r.op_offset, r.reason) for r in said.rejected] == [(3, reference.TOO_LATE)]
    assert said.counts == {"rejected": 1}


@pytest.mark.parametrize("batches", [[[0], [1], [2]], [[0, 1, 2]], [[2, 0, 1]], [[0], [2, 1]]])
def test_early_ops_are_bounded_and_the_first_in_the_log_stay(batches: list[list[int]]) -> None:
    driver = Driver(POLICY)
    said = Said()
    for batch in batches:
        said.add(driver.step(1, *(Op(half_offset=at, op_offset=at, transaction_id=f"tx-{at}") for at in batch)))
    assert [(r.half_offset, r.reason) for r in said.rejected] == [(2, reference.TOO_MANY)]
    halves = [Half(offset=offset, transaction_id=f"tx-{offset}") for offset in range(3)]
    assert driver.step(2, *halves).ledger == {0: "committed", 1: "committed", 2: "open"}


# Half messages


@pytest.mark.parametrize("apart", [False, True])
def test_a_second_half_at_an_offset_is_a_duplicate(*, apart: bool) -> None:
    driver = Driver(POLICY)
    said = Said()
    halves = [Half(value=b"first"), Half(value=b"second", immunity_ms=0)]
    for batch in [[half] for half in halves] if apart else [halves]:
        said.add(driver.step(1, *batch))
    assert said.counts == {"half": 1, "duplicate": 1}
    assert [message.value for message in driver.step(2, COMMIT).delivered] == [b"first"]


def test_a_half_again_after_the_decision_is_not_opened_again() -> None:
    driver = opened()
    driver.step(1, COMMIT)
    said = driver.step(2, Half())
    assert (said.counts, said.ledger) == ({"duplicate": 1}, {0: "committed"})


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [(None, None, None), (b"", b"", ""), (b"key", None, None), (None, b"\x00\xff", '[{"key":"ä","value":null}]')],
)
def test_null_and_empty_keys_values_and_headers_arrive_as_given(
    key: bytes | None, value: bytes | None, headers: str | None, *, stored: bool
) -> None:
    driver = Driver(POLICY, stored=stored)
    driver.step(0, Half(key=key, value=value, headers=headers))
    [check] = driver.step(POLICY.transaction_timeout_ms).checks
    [delivered] = driver.step(POLICY.transaction_timeout_ms + 1, COMMIT).delivered
    for message in (check.message, delivered):
        assert (message.key, message.value, message.headers) == (key, value, headers)


def test_messages_are_delivered_in_the_order_of_the_half_topic() -> None:
    offsets = [0, 1, 2, 3]
    ops = [Op(half_offset=offset, op_offset=9 - offset, transaction_id=f"tx-{offset}") for offset in offsets]
    driver = Driver(POLICY)
    driver.step(0, *(Half(offset=offset, transaction_id=f"tx-{offset}") for offset in offsets))
    assert [message.offset for message in driver.step(1, *ops).delivered] == offsets


def test_messages_are_delivered_in_the_order_of_the_half_topic_after_a_shuffle() -> None:
    driver = Driver(POLICY)
    driver.step(0, *(Half(offset=offset, transaction_id=f"tx-{offset}") for offset in (2, 0, 1)))
    ops = [Op(half_offset=offset, op_offset=offset, transaction_id=f"tx-{offset}") for offset in range(3)]
    assert [message.offset for message in driver.step(1, *ops).delivered] == [0, 1, 2]


def test_a_broken_record_is_rejected_whole() -> None:
    record = Broken("cb.op", 17, b"k", None, "[]", "cb-half is not partition:offset")
    said = Driver(POLICY).step(1, record)
    assert (said.broken, said.counts) == ([record], {"rejected": 1})


# Segments


def test_a_segment_with_nothing_open_is_forgotten_after_a_while() -> None:
    driver = opened()
    decided = driver.step(5, COMMIT)
    assert decided.timer_ms == 5 + POLICY.early_op_ttl_ms
    assert not driver.step(decided.timer_ms - 1).forgotten
    said = driver.step(decided.timer_ms)
    assert said.forgotten
    assert said.timer_ms is None


def test_a_segment_with_a_message_open_is_not_forgotten() -> None:
    driver = opened(half=Half(immunity_ms=3 * POLICY.early_op_ttl_ms))
    said = driver.step(2 * POLICY.early_op_ttl_ms)
    assert not said.forgotten
    assert said.ledger == {0: "open"}


def test_a_parked_message_is_remembered() -> None:
    # Parked long after anything came: a late commit is a conflict, not an op that waits for its half message.
    driver = opened(replace(POLICY, age_limit_ms=2 * POLICY.early_op_ttl_ms))
    parked = driver.step(2 * POLICY.early_op_ttl_ms)
    assert parked.parked
    assert not parked.forgotten
    said = driver.step(2 * POLICY.early_op_ttl_ms + 1, COMMIT)
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]


def test_timers_of_a_segment_coalesce() -> None:
    policy = replace(POLICY, timer_slack_ms=1_000)
    driver = Driver(policy)
    halves = [Half(offset=at, transaction_id=f"tx-{at}", immunity_ms=1_000 + at) for at in range(1, 6)]
    said = driver.step(0, *halves)
    assert said.timer_ms == 2_000
    assert len(driver.step(2_000).checks) == 5
    exact = Driver(policy).step(0, Half(immunity_ms=3_000))
    assert exact.timer_ms == 3_000, "a deadline on the grid is not put off"


def test_the_timer_is_the_earliest_deadline() -> None:
    driver = Driver(POLICY)
    immunities = [9_000, 4_000, 7_000]
    said = driver.step(0, *(Half(at, f"tx-{at}", immunity_ms=wait) for at, wait in enumerate(immunities)))
    timers: list[int] = []
    while said.timer_ms is not None and len(timers) < 3:
        timers.append(said.timer_ms)
        said = driver.step(said.timer_ms)
        assert len(said.checks) == 1
    assert timers == sorted(immunities)
    assert all(earlier < later for earlier, later in pairwise(timers))


def test_an_op_that_waits_has_a_timer_beside_those_of_open_messages() -> None:
    driver = Driver(POLICY)
    driver.step(0, Op(half_offset=1))
    said = driver.step(1, Half(immunity_ms=2 * POLICY.early_op_ttl_ms))
    assert said.timer_ms == POLICY.early_op_ttl_ms
