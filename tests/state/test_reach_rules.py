"""Ops whose half message is not there: they wait only as long as it may still come."""

from dataclasses import replace

import pytest

from state import Reach
from state.segment import BEYOND_REASON, MISSED_REASON, SCATTERED_REASON
from tests.state.records import Driver, Half, Op
from tests.state.small import POLICY

COMMIT = Op()


def driver(reach: Reach) -> Driver:
    made = Driver(POLICY)
    made.reach = reach
    return made


def test_an_op_behind_the_end_of_the_half_topic_is_rejected_without_state() -> None:
    said = driver(Reach(read_to=0, end=5)).step(1, replace(COMMIT, half_offset=5, op_offset=3))
    assert [(op.op_offset, op.reason) for op in said.rejected] == [(3, BEYOND_REASON)]
    assert (said.forgotten, said.timer_ms, said.counts) == (True, None, {"op": 1, "rejected": 1})


def test_an_op_for_a_place_that_was_read_and_has_no_half_message_is_rejected_without_state() -> None:
    said = driver(Reach(read_to=6, end=9)).step(1, replace(COMMIT, half_offset=5))
    assert [op.reason for op in said.rejected] == [MISSED_REASON]
    assert said.forgotten


def test_an_op_within_the_log_waits_for_its_half_message_until_that_was_to_be_read() -> None:
    for half_comes in (True, False):
        one = driver(Reach(read_to=5, end=9))
        assert not one.step(1, replace(COMMIT, half_offset=5)).rejected
        one.reach = Reach(read_to=9, end=20)
        said = one.step(2, Half(offset=5 if half_comes else 6))
        assert len(said.delivered) == half_comes
        assert [op.reason for op in said.rejected] == ([] if half_comes else [MISSED_REASON])


def test_a_half_message_that_is_there_is_decided_wherever_the_log_ends() -> None:
    one = driver(Reach(read_to=6, end=6))
    assert one.step(1, Half(offset=5)).ledger == {5: "open"}
    assert one.step(2, replace(COMMIT, half_offset=5)).ledger == {5: "committed"}


def test_a_segment_that_may_not_be_opened_for_ops_alone_is_opened_by_a_half_message() -> None:
    one = driver(Reach(read_to=0, end=9, may_open=False))
    said = one.step(1, replace(COMMIT, half_offset=5))
    assert [op.reason for op in said.rejected] == [SCATTERED_REASON]
    assert said.forgotten
    assert not one.step(2, Half(offset=4), replace(COMMIT, half_offset=5)).rejected
    assert not one.step(3, replace(COMMIT, half_offset=6)).rejected


@pytest.mark.parametrize("reach", [Reach(), Reach(read_to=1, end=9)])
def test_a_segment_in_which_something_was_decided_is_remembered(reach: Reach) -> None:
    one = driver(reach)
    said = one.step(1, Half(offset=0), COMMIT)
    assert (said.ledger, said.forgotten) == ({0: "committed"}, False)
