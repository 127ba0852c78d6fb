"""Every rule of giving up, and of what an operator can do about it, by name."""

from dataclasses import replace

import numpy as np
import pytest

from state import Always, Event, OutcomeKind, Rows, evaluate
from state.table import EventCodes
from tests.state import reference
from tests.state.ops import (
    CHECK_COMMIT,
    CHECK_ROLLBACK,
    CHECK_UNKNOWN,
    COMMIT,
    OPERATOR_COMMIT,
    OPERATOR_ROLLBACK,
    RESUME,
    ROLLBACK,
)
from tests.state.records import Driver, Half, Op, arrivals
from tests.state.small import POLICY, opened, parked, says_nothing


def exhausted(driver: Driver) -> int:
    """Let all checks be answered without a verdict; the time at which the one after them is due."""
    now_ms = POLICY.transaction_timeout_ms
    for number in range(POLICY.check_max):
        assert len(driver.step(now_ms).checks) == 1
        driver.step(now_ms, replace(CHECK_UNKNOWN, op_offset=number))
        now_ms += POLICY.check_interval_ms
    return now_ms


def test_after_check_max_a_message_is_parked() -> None:
    driver = opened()
    said = driver.step(exhausted(driver))
    assert [(p.message.offset, p.attempts, p.reason) for p in said.parked] == [(0, 3, reference.EXHAUSTED)]
    assert [status.transaction_id for status in said.ended] == ["tx"]
    assert said.ledger == {0: "parked"}


def test_a_parked_message_has_the_last_answer_to_its_checks() -> None:
    driver = opened()
    now_ms = exhausted(driver)
    [parked] = driver.step(now_ms).parked
    assert parked.answer == "unknown"
    said, driver.stored = driver.step(now_ms + 1, replace(RESUME, op_offset=10)), True
    for number, remark in enumerate((b"locked", None, b"no such order\n\xff" + b"x" * 500)):
        assert said.checks
        driver.step(now_ms, replace(CHECK_UNKNOWN, op_offset=11 + number, value=remark))
        now_ms += POLICY.check_interval_ms + 1
        said = driver.step(now_ms)
    [parked] = said.parked
    assert (parked.reason, parked.answer) == (reference.EXHAUSTED, f"unknown: no such order\n�{'x' * 176}")
    assert set(driver.segment.messages["answer"]) == {""}


def test_after_check_max_a_message_is_committed_if_the_policy_says_so() -> None:
    driver = opened(replace(POLICY, on_exhausted=Always(Event.EXHAUSTED_COMMIT)))
    said = driver.step(exhausted(driver))
    assert [message.offset for message in said.delivered] == [0]
    assert said.ledger == {0: "committed"}
    assert not said.parked


def test_after_check_max_a_message_is_rolled_back_if_the_policy_says_so() -> None:
    driver = opened(replace(POLICY, on_exhausted=Always(Event.EXHAUSTED_ROLLBACK)))
    said = driver.step(exhausted(driver))
    assert not said.delivered
    assert (said.counts, said.ledger) == ({"rolled_back": 1}, {0: "rolled_back"})


def test_after_check_max_the_users_own_choice_is_asked_about_each_message() -> None:
    def by_topic(messages: Rows) -> EventCodes:
        events = {"paid": Event.EXHAUSTED_COMMIT, "lost": Event.EXHAUSTED_ROLLBACK, "odd": Event.EXHAUSTED}
        return np.array([events[topic] for topic in messages["topic"]], dtype=np.uint8)

    driver = Driver(replace(POLICY, on_exhausted=by_topic, check_max=0))
    driver.step(0, *(Half(at, f"tx-{at}", topic=topic) for at, topic in enumerate(["odd", "paid", "lost"])))
    assert driver.step(POLICY.transaction_timeout_ms).ledger == {0: "parked", 1: "committed", 2: "rolled_back"}


def test_the_age_limit_parks_whatever_the_policy_after_check_max() -> None:
    driver, _ = parked(replace(POLICY, on_exhausted=Always(Event.EXHAUSTED_COMMIT)))
    assert driver.step(POLICY.age_limit_ms + 1).ledger == {0: "parked"}


@pytest.mark.parametrize("late", [COMMIT, ROLLBACK, CHECK_COMMIT, CHECK_ROLLBACK])
def test_no_producer_and_no_check_decides_a_parked_message(late: Op) -> None:
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, late)
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]
    assert said.ledger == {0: "parked"}


def test_an_operator_commits_a_parked_message() -> None:
    driver, now_ms = parked(half=Half(value=b"v"))
    said = driver.step(now_ms + 1, OPERATOR_COMMIT)
    assert [(message.offset, message.value) for message in said.delivered] == [(0, b"v")]
    assert said.ledger == {0: "committed"}
    assert not said.ended, "its status row ended when it was parked"


def test_an_operator_rolls_a_parked_message_back() -> None:
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, OPERATOR_ROLLBACK)
    assert says_nothing(said)
    assert said.ledger == {0: "rolled_back"}


@pytest.mark.parametrize("op", [OPERATOR_COMMIT, OPERATOR_ROLLBACK])
def test_an_operator_decides_an_open_message_too(op: Op) -> None:
    assert opened().step(1, op).ledger == {0: "committed" if op is OPERATOR_COMMIT else "rolled_back"}


def test_resume_checks_a_parked_message_again_with_fresh_attempts_and_a_new_age() -> None:
    driver = opened()
    parked_ms = exhausted(driver)
    assert driver.step(parked_ms).parked
    now_ms = parked_ms + POLICY.age_limit_ms
    said = driver.step(now_ms, RESUME)
    assert said.counts["resumed"] == 1
    assert [(check.attempt, check.message.ingested_ms) for check in said.checks] == [(1, now_ms)]
    assert said.ledger == {0: "checking"}
    assert driver.step(now_ms + 1, CHECK_COMMIT).delivered


def test_resume_of_a_message_that_is_being_checked_is_a_duplicate() -> None:
    said = opened().step(1, RESUME)
    assert (said.counts["duplicate"], said.ledger) == (1, {0: "open"})


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_resume_of_a_decided_message_is_a_conflict(decision: Op) -> None:
    said = opened().step(1, decision, replace(RESUME, op_offset=1))
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]


def test_resume_and_a_commit_of_one_batch_are_judged_in_their_order() -> None:
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, replace(COMMIT, op_offset=2), replace(RESUME, op_offset=1))
    assert len(said.delivered) == 1
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, replace(COMMIT, op_offset=1), replace(RESUME, op_offset=2))
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]
    assert said.ledger == {0: "checking"}


@pytest.mark.parametrize("op", [RESUME, OPERATOR_COMMIT, OPERATOR_ROLLBACK])
def test_a_foreign_operators_op_is_rejected(op: Op) -> None:
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, replace(op, transaction_id="another"))
    assert [rejected.reason for rejected in said.rejected] == [reference.FOREIGN]
    assert said.ledger == {0: "parked"}


def test_a_parked_message_is_kept_for_parked_ttl() -> None:
    driver, now_ms = parked()
    end_ms = now_ms + POLICY.parked_ttl_ms
    said = driver.step(end_ms - 1)
    assert (said.ledger, said.timer_ms) == ({0: "parked"}, end_ms)
    said = driver.step(end_ms)
    assert (said.counts, said.ledger) == ({"abandoned": 1}, {0: "abandoned"})
    assert [r.reason for r in driver.step(end_ms + 1, RESUME).rejected] == [reference.CONFLICT]


# With an immunity of its own, and late_end_transaction = require_check

STRICT = replace(POLICY, late_end_needs_check=True)


@pytest.mark.parametrize("op", [COMMIT, ROLLBACK])
def test_a_producers_decision_after_its_immunity_is_rejected_if_the_policy_says_so(op: Op) -> None:
    driver = opened(STRICT, Half(immunity_ms=1_000))
    driver.step(1_000)
    said = driver.step(1_001, op)
    assert [rejected.reason for rejected in said.rejected] == [reference.LATE]
    assert said.ledger == {0: "checking"}
    assert driver.step(1_002, replace(CHECK_COMMIT, op_offset=1)).delivered


@pytest.mark.parametrize("op", [CHECK_COMMIT, OPERATOR_COMMIT])
def test_a_check_and_an_operator_decide_after_the_immunity(op: Op) -> None:
    assert opened(STRICT, Half(immunity_ms=1_000)).step(1_001, op).delivered


def test_a_producers_decision_within_its_immunity_is_taken() -> None:
    assert opened(STRICT, Half(immunity_ms=1_000)).step(1_000, COMMIT).delivered


def test_without_an_immunity_of_its_own_a_late_decision_is_taken() -> None:
    assert opened(STRICT).step(POLICY.transaction_timeout_ms + 1, COMMIT).delivered


def test_a_late_decision_is_taken_by_default() -> None:
    assert opened(half=Half(immunity_ms=1_000)).step(1_001, COMMIT).delivered


@pytest.mark.parametrize("decision", [OPERATOR_COMMIT, OPERATOR_ROLLBACK])
def test_that_it_waits_no_longer_is_said_after_all_else(decision: Op) -> None:
    """The sink knows by then whether the topic took the message."""
    driver, _ = parked()
    result = evaluate(driver.segment, arrivals(ops=[decision]), 10**6, driver.policy)
    kinds = result.outcomes["kind"].tolist()
    assert kinds[-1] == OutcomeKind.PARK_END
    assert kinds.count(OutcomeKind.PARK_END) == 1
    assert len(kinds) > 1
