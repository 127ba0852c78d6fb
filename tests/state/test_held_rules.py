"""Half messages that carry their own decision: delivered or delayed without an op, and left to operators."""

from dataclasses import replace

import pytest

from tests.state import reference
from tests.state.ops import CHECK_COMMIT, COMMIT, OPERATOR_COMMIT, OPERATOR_ROLLBACK, RESUME, ROLLBACK, UNKNOWN
from tests.state.records import Driver, Half, Op
from tests.state.small import POLICY, opened, parked, says_nothing

DECIDED = Half(says="commit")
UNDELIVERABLE = Half(says="park")
REDELIVER = Op("redeliver", source="operator")


def test_a_half_message_that_is_decided_is_delivered_without_an_op() -> None:
    driver = Driver(POLICY)
    said = driver.step(0, DECIDED)
    assert [message.offset for message in said.delivered] == [0]
    assert (said.ledger, said.counts) == ({0: "committed"}, {"half": 1, "committed": 1})


def test_a_half_message_that_is_decided_is_delivered_at_its_time_and_never_checked() -> None:
    driver = Driver(POLICY)
    end_ms = POLICY.age_limit_ms + 1_000
    said = driver.step(0, replace(DECIDED, deliver_at_ms=end_ms))
    assert says_nothing(said)
    assert (said.ledger, said.counts["delayed"], said.timer_ms) == ({0: "delayed"}, 1, end_ms)
    assert says_nothing(driver.step(end_ms - 1))
    assert [message.offset for message in driver.step(end_ms).delivered] == [0]


def test_a_half_message_that_the_job_wrote_counts_as_a_retry_and_not_as_one_that_was_sent() -> None:
    driver = opened(half=DECIDED)
    assert driver.step(1, replace(DECIDED, offset=1, held=1)).counts == {"retried": 1, "committed": 1}
    assert driver.step(2, replace(DECIDED, offset=2, held=1, deliver_at_ms=9)).counts == {"retried": 1}
    assert driver.step(3, replace(UNDELIVERABLE, offset=3, held=1)).counts == {"retried": 1, "parked": 1}
    assert driver.step(4, replace(DECIDED, offset=4, deliver_at_ms=9)).counts == {"half": 1, "delayed": 1}


@pytest.mark.parametrize("op", [COMMIT, CHECK_COMMIT, OPERATOR_COMMIT, REDELIVER])
def test_an_op_for_a_half_message_that_is_decided_is_a_duplicate(op: Op) -> None:
    said = Driver(POLICY).step(0, DECIDED, op)
    assert (len(said.delivered), said.counts["duplicate"]) == (1, 1)


def test_an_op_that_came_before_a_half_message_that_is_decided_comes_too_late() -> None:
    driver = Driver(POLICY)
    driver.step(0, ROLLBACK)
    said = driver.step(1, DECIDED)
    assert len(said.delivered) == 1
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]


def test_an_undeliverable_message_is_parked_and_kept_for_an_operator() -> None:
    driver = Driver(POLICY)
    said = driver.step(0, UNDELIVERABLE)
    assert [(one.message.offset, one.reason) for one in said.parked] == [(0, "")]
    assert (said.ledger, said.timer_ms) == ({0: "undeliverable"}, POLICY.parked_ttl_ms)


def test_an_operator_has_an_undeliverable_message_delivered_again_once() -> None:
    driver = opened(half=UNDELIVERABLE)
    said = driver.step(1, REDELIVER, replace(REDELIVER, op_offset=1))
    assert [message.offset for message in said.delivered] == [0]
    assert [one.became for one in said.unparked] == ["committed"]
    assert (said.counts["applied"], said.counts["duplicate"]) == (1, 1)
    said = driver.step(2, replace(REDELIVER, op_offset=2))
    assert says_nothing(said)
    assert said.counts["duplicate"] == 1


@pytest.mark.parametrize("op", [ROLLBACK, OPERATOR_ROLLBACK, RESUME])
def test_nothing_else_is_to_be_decided_of_an_undeliverable_message(op: Op) -> None:
    driver = opened(half=UNDELIVERABLE)
    said = driver.step(1, op)
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]
    assert said.ledger == {0: "undeliverable"}


def test_redelivery_of_a_message_that_is_undecided_or_parked_delivers_nothing() -> None:
    said = opened().step(1, REDELIVER)
    assert (said.ledger, said.counts["without_effect"]) == ({0: "open"}, 1)
    driver, now_ms = parked()
    said = driver.step(now_ms + 1, REDELIVER)
    assert [rejected.reason for rejected in said.rejected] == [reference.CONFLICT]
    assert said.ledger == {0: "parked"}


def test_an_undeliverable_message_is_kept_for_parked_ttl() -> None:
    driver = opened(half=UNDELIVERABLE)
    assert says_nothing(driver.step(POLICY.parked_ttl_ms - 1))
    said = driver.step(POLICY.parked_ttl_ms)
    assert (said.ledger, [one.became for one in said.unparked]) == ({0: "abandoned"}, ["abandoned"])
    assert not driver.step(POLICY.parked_ttl_ms + 1, REDELIVER).delivered


@pytest.mark.parametrize(
    ("op", "became"),
    [(OPERATOR_COMMIT, "committed"), (OPERATOR_ROLLBACK, "rolled back"), (RESUME, "resumed")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_ends_a_parked_message_is_written(op: Op, became: str) -> None:
    driver, now_ms = parked()
    assert [one.became for one in driver.step(now_ms + 1, op).unparked] == [became]


@pytest.mark.parametrize("op", [COMMIT, ROLLBACK, UNKNOWN])
def test_what_changes_nothing_ends_no_parked_message(op: Op) -> None:
    driver, now_ms = parked()
    assert not driver.step(now_ms + 1, op).unparked
