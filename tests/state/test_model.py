"""The columnar segment against the row-at-a-time reference, on random histories."""

import os
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state import Policy, RunLimits
from tests.state.records import Driver, Half, Op, Said
from tests.state.reference import Reference
from tests.state.strategies import History, Records, histories, splits, transaction_id

pytestmark = pytest.mark.timeout(1500)
"""A time limit that ends a history in its midst is one that fails and then passes: hypothesis calls that flaky."""

ENDS = ("half", "applied", "without_effect", "duplicate", "rejected")
"""Counts of which each record is in one in the end."""

HISTORIES = int(os.environ.get("CHECKBACK_HISTORIES", "300"))

_SETTINGS = settings(
    max_examples=HISTORIES,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
)


@_SETTINGS
@given(histories())
def test_a_segment_does_what_the_reference_does(history: History) -> None:
    segment, reference = Driver(history.policy, limits=history.limits), Reference(history.policy, history.limits)
    now_ms, timer_ms = 1_000, None
    came_in, ends = 0, Counter[str]()
    for batch in history.batches:
        if batch.step_ms is not None:
            now_ms += batch.step_ms
        elif timer_ms is not None:
            now_ms = max(now_ms, timer_ms)
        came = batch.all_came(reference.outstanding())
        segment.stored = batch.stored
        actual = segment.step(now_ms, *came)
        expected = reference.step(now_ms, *came)
        assert actual.in_any_order() == expected.in_any_order()
        left = history.limits != RunLimits()
        assert actual.timer_ms is None or actual.timer_ms > now_ms or left, "something due was left"
        timer_ms = actual.timer_ms
        came_in += len(came)
        ends.update({name: actual.counts[name] for name in ENDS})
        waiting = len(reference.waiting) + len(reference.claims)
        assert came_in == ends.total() + waiting, "a record ended without a name"


# Patient enough for nothing to be due while the batch that is split comes.
_CHECKS = Policy(check_interval_ms=20, check_max=2, check_answer_ttl_ms=30, unreachable_backoff_max_ms=40)
_TIMES = replace(_CHECKS, transaction_timeout_ms=10, age_limit_ms=1_000, early_op_ttl_ms=100)
_PATIENT = replace(_TIMES, timer_slack_ms=1, segment_size=64)


def _begun() -> Driver:
    """A segment with checks to be answered at offsets 0 and 1, one answered at 2, and an early op for 3."""
    driver = Driver(_PATIENT)
    halves = [Half(offset=offset, transaction_id=transaction_id(offset)) for offset in range(3)]
    driver.step(0, *halves, Op("commit", half_offset=3, op_offset=-2, transaction_id=transaction_id(3)))
    driver.step(10)
    driver.step(11, Op("check_unknown", half_offset=2, op_offset=-1, transaction_id=transaction_id(2)))
    return driver


def _all_said(driver: Driver, batches: tuple[Records, ...]) -> list[Said]:
    """What is said in batches of one time, taken together, and then in a long while without any."""
    together = Said()
    for batch in batches:
        together.add(driver.step(11, *batch))
    over = {status.offset for status in together.ended}  # of one that is decided in the same batch nothing is said
    last = {status.offset: status for status in together.statuses}  # of two answers in a batch the last one is told
    together.statuses = [status for status in last.values() if status.offset not in over]
    return [together, *(driver.step(11 + later) for later in (9, 20, 50, 100, 2_000))]


@settings(_SETTINGS, max_examples=max(HISTORIES // 3, 1))
@given(splits())
def test_arrivals_of_one_time_may_come_in_several_batches(split: tuple[Records, tuple[Records, ...]]) -> None:
    whole, parts = split
    at_once = _all_said(_begun(), (whole,))
    in_parts = _all_said(_begun(), parts)
    assert [said.in_any_order() for said in in_parts] == [said.in_any_order() for said in at_once]


@settings(_SETTINGS, max_examples=max(HISTORIES // 5, 1))
@given(histories(), st.data())
def test_the_order_of_records_in_a_batch_means_nothing_but_for_repeated_offsets(
    history: History, data: st.DataObject
) -> None:
    """A shuffle may hand over the records of a batch in any order."""
    in_order, shuffled = (Driver(history.policy, limits=history.limits) for _ in range(2))
    now_ms = 0
    for batch in history.batches:
        now_ms += batch.step_ms or 0
        came = [record for record in batch.came if isinstance(record, Op)]
        seen: dict[int, Half] = {}
        for record in batch.came:
            if isinstance(record, Half):
                seen.setdefault(record.offset, record)
        records: list[Half | Op] = [*came, *seen.values()]
        one = in_order.step(now_ms, *records)
        other = shuffled.step(now_ms, *data.draw(st.permutations(records)))
        assert other.in_any_order() == one.in_any_order()
        assert other.delivered == one.delivered, "the order of delivery is that of the half topic"
