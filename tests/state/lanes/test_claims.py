"""Ops that say that a lane has delivered a half message which has not been read yet."""

import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from checkback.wire.protocol import CONTESTED
from state import Arrivals, Event, Policy, Segment, evaluate, segment_from_bytes, segment_to_bytes
from state.claims import CONTESTED_PLACE
from state.outcomes import UNCHECKABLE_REASON, UNSETTLED_REASON
from state.rows import OP_FIELDS, Rows, objects
from state.segment import BEYOND_REASON, CLAIMS_REASON, MISFIT_REASON, MISSED_REASON, SCATTERED_REASON, Reach
from tests.state.ops import COMMIT
from tests.state.records import Driver, Half, Op, Said
from tests.state.small import POLICY

OF_LANE = Half(lane=0, lane_name="0f" * 16)
DELIVERED = Op("delivered")
OTHERS = [replace(DELIVERED, transaction_id=f"other-{at}", op_offset=10 + at) for at in range(POLICY.claims_max)]


def reasons(said: Said) -> list[str]:
    return [one.reason for one in said.rejected]


def test_an_early_op_that_a_lane_has_delivered_waits_without_limit() -> None:
    """Acknowledged, it is in no ledger any more: without it the half message would be delivered again."""
    driver = Driver(POLICY, stored=True)
    others = [Op("commit", half_offset=at, op_offset=at) for at in range(1, POLICY.early_op_max + 1)]
    last = Op("delivered", op_offset=9)
    assert not driver.step(0, *others, last).rejected
    said = driver.step(50 * POLICY.early_op_ttl_ms)
    assert [one.half_offset for one in said.rejected] == [1, 2]
    assert said.timer_ms is not None
    assert said.timer_ms > 50 * POLICY.early_op_ttl_ms
    said = driver.step(51 * POLICY.early_op_ttl_ms, OF_LANE)
    assert (said.ledger, said.counts["applied"], said.counts["by_lane"]) == ({0: "committed"}, 1, 1)
    assert not said.delivered


def test_a_claim_uses_up_no_room_of_other_ops() -> None:
    driver = Driver(POLICY)
    driver.step(0, *(replace(DELIVERED, half_offset=at) for at in range(20)))
    others = [Op("commit", half_offset=at, op_offset=at) for at in range(POLICY.early_op_max)]
    assert not driver.step(1, *others).rejected


def test_a_claim_may_open_any_segment_and_lets_no_other_op_in() -> None:
    driver = Driver(POLICY)
    driver.reach = Reach(read_to=0, end=64, may_open=False)
    assert not driver.step(0, DELIVERED).rejected
    assert reasons(driver.step(1, COMMIT)) == [SCATTERED_REASON]
    assert driver.step(2, OF_LANE).ledger == {0: "committed"}


@pytest.mark.parametrize("reach", [Reach(read_to=1, end=64), Reach(read_to=0, end=0)])
def test_a_claim_whose_half_message_cannot_come_is_rejected(reach: Reach) -> None:
    reason = MISSED_REASON if reach.read_to else BEYOND_REASON
    driver = Driver(POLICY)
    driver.reach = reach
    said = driver.step(0, DELIVERED)
    assert (reasons(said), said.forgotten) == ([reason], True)
    driver.reach = Reach(read_to=0, end=64)
    assert not driver.step(1, DELIVERED, *OTHERS).rejected[1:]
    driver.reach = reach
    said = driver.step(2)
    assert (reasons(said), said.forgotten) == ([reason] * POLICY.claims_max, True)
    assert {one.action_and_source for one in said.rejected} == {"commit//delivered"}, "no more is known of it"


def test_what_is_said_again_is_a_duplicate() -> None:
    driver = Driver(POLICY, stored=True)
    assert driver.step(0, DELIVERED, replace(DELIVERED, op_offset=1)).counts["duplicate"] == 1
    assert driver.step(1, replace(DELIVERED, op_offset=2, source="check")).counts["duplicate"] == 1
    assert driver.step(2, OF_LANE).counts["applied"] == 1


@pytest.mark.parametrize("half", [Half(), Half(says="commit"), replace(OF_LANE, group="others")])
def test_a_claim_of_another_half_message_or_of_one_without_a_lane_is_rejected(half: Half) -> None:
    driver = Driver(POLICY, stored=True)
    driver.step(0, DELIVERED)
    said = driver.step(1, half)
    assert reasons(said) == [MISFIT_REASON]
    assert said.ledger == {0: "committed" if half.says else "open"}
    assert driver.segment.claims.count == 0


def test_the_op_of_the_lane_is_found_among_those_of_others() -> None:
    driver = Driver(POLICY, stored=True)
    driver.step(0, *OTHERS[1:], DELIVERED)
    said = driver.step(1, replace(DELIVERED, transaction_id="one more", op_offset=90))
    assert reasons(said) == [CLAIMS_REASON]
    said = driver.step(2, OF_LANE)
    assert (said.ledger, reasons(said)) == ({0: "committed"}, [MISFIT_REASON] * (POLICY.claims_max - 1))
    assert not said.parked


def contested() -> Driver:
    """A half message parked because the op of its lane was one too many."""
    driver = Driver(POLICY, stored=True)
    driver.step(0, *OTHERS)
    assert reasons(driver.step(1, DELIVERED)) == [CLAIMS_REASON]
    said = driver.step(2, OF_LANE)
    assert [one.reason for one in said.parked] == [CONTESTED]
    assert (said.ledger, said.delivered) == ({0: "parked"}, [])
    return driver


def test_too_many_different_ones_and_the_job_never_delivers_it_by_itself() -> None:
    driver = contested()
    said = driver.step(3, Op("check_commit", settled=1, source="check"), replace(COMMIT, settled=1, op_offset=1))
    assert (said.ledger, said.counts["conflict"]) == ({0: "parked"}, 2)
    said = driver.step(4, Op("operator_commit", source="operator", op_offset=2))
    assert (said.ledger, reasons(said)) == ({0: "parked"}, [UNSETTLED_REASON])


def test_no_check_finds_out_what_became_of_a_contested_one() -> None:
    """Its lane's ledger does not list it any more."""
    said = contested().step(3, Op("resume", source="operator"))
    assert (said.ledger, reasons(said)) == ({0: "parked"}, [UNCHECKABLE_REASON])


@pytest.mark.parametrize("says", ["delivered", "operator_commit", "operator_rollback"])
def test_who_has_looked_at_its_topic_decides_a_contested_one(says: str) -> None:
    said = contested().step(3, Op(says, source="operator", settled=int(says != "delivered")))
    assert said.ledger == {0: "rolled_back" if says.endswith("rollback") else "committed"}
    assert len(said.delivered) == (says == "operator_commit")


@pytest.mark.parametrize("half", [Half(), Half(says="commit")])
def test_a_half_message_without_a_lane_cannot_be_contested(half: Half) -> None:
    driver = Driver(POLICY)
    driver.step(0, *OTHERS, DELIVERED)
    assert driver.step(1, half).ledger == {0: "committed" if half.says else "open"}


def test_what_is_kept_of_a_hundred_thousand_claims_is_bounded() -> None:
    """Measured: 0.3 s, and of the state 0.5 MB."""
    policy, count = Policy(), 100_000
    ids = objects([f"id-{at}" for at in range(count)])
    columns = {
        name: np.zeros(count, kind) if kind is not object else objects([""] * count) for name, kind in OP_FIELDS.items()
    }
    places = np.arange(count) % policy.segment_size
    columns |= {"half_offset": places, "op_offset": np.arange(count), "transaction_id": ids}
    columns["event"] = np.full(count, Event.DELIVERED, dtype=np.uint8)
    ops = Rows(columns)
    tracemalloc.start()
    began = time.process_time()
    made = evaluate(Segment.new(0, policy), Arrivals(ops=ops), 0, policy)
    assert made.segment is not None
    content = segment_to_bytes(made.segment)
    seconds = time.process_time() - began
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    claims = segment_from_bytes(content).claims
    assert claims.count == policy.segment_size * (policy.claims_max + 1)
    assert (claims["digest"] == CONTESTED_PLACE).sum() == policy.segment_size
    assert len(content) < 600_000
    assert most < 100_000_000
    assert seconds < 20, "it is a small part of that"
