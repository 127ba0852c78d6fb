"""What the job makes of half messages that name a lane."""

import pytest

from state import Always, Event, Policy
from state.outcomes import CONFLICT_REASON, LANELESS_REASON, UNSETTLED_REASON
from tests.state.ops import COMMIT, UNKNOWN
from tests.state.records import Driver, Half, Op
from tests.state.small import POLICY, SECOND, opened, parked

OF_LANE = Half(lane=0)
DELIVERED = Op("delivered")
VERDICTS = ("commit", "rollback", "check_commit", "check_rollback", "operator_commit", "operator_rollback")


def _source(says: str) -> str:
    return {"check": "check", "operator": "operator"}.get(says.split("_", maxsplit=1)[0], "producer")


def _verdict(says: str, settled: int = 0, op_offset: int = 0) -> Op:
    return Op(says, op_offset=op_offset, source=_source(says), settled=settled)


def test_what_a_lane_has_delivered_is_committed_and_never_delivered_again() -> None:
    driver = opened(half=OF_LANE)
    said = driver.step(1, DELIVERED)
    assert said.ledger == {0: "committed"}
    assert not said.delivered
    assert (said.counts["applied"], said.counts["committed"], said.counts["by_lane"]) == (1, 1, 1)
    later = driver.step(2, DELIVERED, _verdict("check_commit", settled=1, op_offset=1))
    assert not later.delivered
    assert later.counts["duplicate"] == 2


@pytest.mark.parametrize("says", VERDICTS)
def test_a_verdict_that_is_not_settled_is_rejected_and_changes_nothing(says: str) -> None:
    driver = opened(half=OF_LANE)
    said = driver.step(1, _verdict(says))
    assert said.ledger == {0: "open"}
    assert [one.reason for one in said.rejected] == [UNSETTLED_REASON]
    assert not said.delivered


@pytest.mark.parametrize("says", VERDICTS)
def test_a_settled_verdict_is_taken_as_of_any_half_message(says: str) -> None:
    driver = opened(half=OF_LANE)
    said = driver.step(1, _verdict(says, settled=1))
    assert said.ledger == {0: "committed" if says.endswith("commit") else "rolled_back"}
    assert len(said.delivered) == says.endswith("commit")


def test_what_one_op_has_settled_stays_so_for_later_ones() -> None:
    driver = Driver(POLICY, stored=True)
    driver.step(0, OF_LANE)
    assert driver.step(1, Op("unknown", settled=1)).ledger == {0: "open"}
    assert driver.step(2, COMMIT).delivered


def test_a_foreign_op_settles_nothing() -> None:
    driver = opened(half=OF_LANE)
    driver.step(1, Op("unknown", transaction_id="another", settled=1))
    assert driver.step(2, COMMIT).ledger == {0: "open"}


def test_a_parked_message_that_its_lane_has_delivered_is_delivered() -> None:
    driver, now_ms = parked(half=OF_LANE)
    refused = driver.step(now_ms + 1, _verdict("operator_rollback"))
    assert [one.reason for one in refused.rejected] == [UNSETTLED_REASON]
    said = driver.step(now_ms + 2, DELIVERED)
    assert said.ledger == {0: "committed"}
    assert [ended.became for ended in said.unparked] == ["committed"]
    assert not said.delivered


def test_a_half_message_that_names_no_lane_is_delivered_by_none() -> None:
    said = opened().step(1, DELIVERED)
    assert said.ledger == {0: "open"}
    assert [one.reason for one in said.rejected] == [LANELESS_REASON]


def test_that_a_lane_has_delivered_what_was_rolled_back_is_a_conflict() -> None:
    driver = opened(half=OF_LANE)
    driver.step(1, _verdict("rollback", settled=1))
    said = driver.step(2, DELIVERED)
    assert said.ledger == {0: "rolled_back"}
    assert [one.reason for one in said.rejected] == [CONFLICT_REASON]


@pytest.mark.parametrize("event", [Event.EXHAUSTED, Event.EXHAUSTED_COMMIT, Event.EXHAUSTED_ROLLBACK])
def test_no_timer_decides_what_was_never_settled_it_asks(event: Event) -> None:
    policy = Policy(check_max=1, on_exhausted=Always(event), timer_slack_ms=1, segment_size=64)
    driver, now_ms = opened(policy, OF_LANE), policy.transaction_timeout_ms
    assert driver.step(now_ms).checks
    driver.step(now_ms + 1, Op("check_unknown", source="check"))
    now_ms += policy.check_interval_ms
    again = driver.step(now_ms)
    assert (len(again.checks), again.ledger) == (1, {0: "checking"})
    driver.step(now_ms + 1, Op("check_unknown", op_offset=1, source="check", settled=1))
    said = driver.step(now_ms + policy.check_interval_ms)
    assert said.ledger == {0: {16: "committed", 17: "rolled_back"}.get(event, "parked")}


def test_a_message_without_checks_is_asked_about_as_long_as_nobody_has_settled_it() -> None:
    policy = Policy(on_exhausted=Always(Event.EXHAUSTED_COMMIT), timer_slack_ms=1, segment_size=64)
    driver = opened(policy, Half(lane=0, check_max=0))
    assert driver.step(policy.transaction_timeout_ms).checks


def test_age_parks_a_message_that_nobody_has_settled() -> None:
    driver, _ = parked(half=OF_LANE)
    assert driver.step(POLICY.age_limit_ms + 1, UNKNOWN).ledger == {0: "parked"}


def test_that_a_lane_has_delivered_is_never_too_late() -> None:
    driver = opened(Policy(late_end_needs_check=True, segment_size=64), Half(lane=0, immunity_ms=1))
    assert driver.step(SECOND, DELIVERED).ledger == {0: "committed"}
