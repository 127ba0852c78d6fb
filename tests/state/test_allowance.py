"""Timers of one batch are bounded, and what is left comes in its turn."""

from typing import Any

import numpy as np
import pytest

from state import Allowance, Arrivals, RunLimits, Segment, evaluate
from state.rows import objects
from tests.state.records import Driver, Half, Op, arrivals
from tests.state.small import POLICY

DUE_MS = POLICY.transaction_timeout_ms


def _halves(count: int, group: str = "orders", first: int = 0, **columns: Any) -> list[Half]:
    return [Half(first + at, f"tx-{first + at}", group, **columns) for at in range(count)]


def _taken(allowance: Allowance, groups: list[str], size: int = 0) -> list[bool]:
    taken: list[bool] = allowance.take(objects(groups), np.full(len(groups), size, dtype=np.int64)).tolist()
    return taken


def _put_off(allowance: Allowance, groups: list[str], size: int = 0) -> int:
    return allowance.put_off(objects(groups), np.full(len(groups), size, dtype=np.int64))


def test_no_more_timers_fire_in_a_step_than_are_allowed_and_the_rest_comes_next() -> None:
    driver = Driver(POLICY, limits=RunLimits(events=20, group_least=0))
    driver.step(0, *_halves(50))
    asked = []
    for _ in range(3):
        said = driver.step(DUE_MS)
        asked.append([check.message.offset for check in said.checks])
        timer_ms = said.timer_ms
        assert timer_ms is not None
        assert (timer_ms <= DUE_MS) == (len(asked) < 3), "what is left is due at once"
    assert asked == [list(range(20)), list(range(20, 40)), list(range(40, 50))]


def test_the_oldest_go_first() -> None:
    driver = Driver(POLICY, limits=RunLimits(events=2, group_least=0))
    driver.step(0, *_halves(2, first=5))
    driver.step(1, *_halves(2))
    assert [check.message.offset for check in driver.step(DUE_MS + 1).checks] == [5, 6]


def test_a_group_leaves_room_for_the_others() -> None:
    driver = Driver(POLICY, limits=RunLimits(events=20, group_events=5))
    driver.step(0, *_halves(40, "away"), *_halves(3, "well", first=40))
    assert [check.message.group for check in driver.step(DUE_MS).checks] == ["away"] * 5 + ["well"] * 3


def test_of_each_group_a_few_may_always_fire() -> None:
    allowance = Allowance(RunLimits(events=6, group_events=3, group_least=2))
    assert _taken(allowance, ["away"] * 4 + ["gone"] * 4) == [True] * 3 + [False] + [True] * 3 + [False]
    assert _taken(allowance, ["away", "well", "well", "well"]) == [False, True, True, False]
    assert _taken(allowance, ["large"], 65_537) == [False]


def test_segments_share_what_a_batch_allows() -> None:
    allowance, asked = Allowance(RunLimits(events=6, group_events=5, group_least=0)), []
    for number, group in enumerate(("away", "away", "well")):
        halves = _halves(4, group, number * POLICY.segment_size)
        opened = evaluate(Segment.new(number, POLICY), arrivals(halves), 0, POLICY).segment
        assert opened
        said = evaluate(opened, Arrivals(), DUE_MS, POLICY, allowance).outcomes
        asked.append(int((said["kind"] == 2).sum()))
    assert asked == [4, 1, 1]


def test_the_payload_of_a_batchs_timers_is_bounded_but_any_message_fits() -> None:
    driver = Driver(POLICY, limits=RunLimits(payload_bytes=2_500, group_least=0))
    driver.step(0, *_halves(4, value=b"v" * 1_000), Half(9, value=b"v" * 60_000))
    steps = [[check.message.offset for check in driver.step(DUE_MS).checks] for _ in range(3)]
    assert steps == [[0, 1, 2], [3, 9], []]


def test_what_a_check_leaves_out_counts_for_nothing() -> None:
    driver = Driver(POLICY, limits=RunLimits(payload_bytes=300_000))
    driver.step(0, *_halves(4, value=b"v" * 1_000_000))
    assert len(driver.step(DUE_MS).checks) == 4


def test_more_large_content_than_a_batch_may_write_is_delivered_in_the_batches_after_it() -> None:
    driver = Driver(POLICY, limits=RunLimits(commit_bytes=12_000, payload_bytes=6_000, group_least=0))
    driver.step(0, *_halves(10, value=b"v" * 5_000), Half(10, "tx-10", value=b"small"))
    ops = [Op("commit", offset, offset, f"tx-{offset}") for offset in range(11)]
    first = driver.step(1, *ops)
    # 0, 1 and 2 are committed at once, as is the small one; two more as what is due
    assert sorted(message.offset for message in first.delivered) == [0, 1, 2, 3, 4, 10]
    assert (first.counts["applied"], first.counts["committed"]) == (11, 6)
    rest = [[message.offset for message in driver.step(now_ms).delivered] for now_ms in (2, 3, 4, 5)]
    assert rest == [[5, 6], [7, 8], [9], []]


def test_a_commit_that_is_put_off_is_a_decision() -> None:
    driver = Driver(POLICY, limits=RunLimits(commit_bytes=1, payload_bytes=1, group_least=0))
    driver.step(0, *_halves(3, value=b"v" * 5_000))
    driver.step(1, *[Op("commit", offset, offset, f"tx-{offset}") for offset in range(3)])
    said = driver.step(2, Op("rollback", 2, 9, "tx-2"))
    assert (said.counts["conflict"], [message.offset for message in said.delivered]) == (1, [2])


def test_commits_of_small_messages_are_never_limited() -> None:
    driver = Driver(POLICY, limits=RunLimits(events=1, group_events=1, payload_bytes=1))
    driver.step(0, *_halves(50))
    ops = [Op("commit", offset, offset, f"tx-{offset}") for offset in range(50)]
    assert len(driver.step(DUE_MS, *ops).delivered) == 50


def test_a_segment_is_left_alone_until_its_turn_can_come() -> None:
    allowance = Allowance(RunLimits(events=10, group_events=4))
    turns = [_put_off(allowance, ["away"] * 4) for _ in range(4)]
    assert turns == [0, 1_000, 2_000, 3_000]
    assert _put_off(allowance, ["away"] * 3 + ["well"]) == 1_000  # 16 wait before the one that is well, 10 a batch
    for _ in range(100):
        latest = _put_off(allowance, ["away"] * 4)
    assert latest == 10_000


def test_what_is_left_is_not_rounded_up_and_does_not_put_off_what_is_due_before() -> None:
    allowance = Allowance(RunLimits(group_events=1))
    assert _put_off(allowance, ["orders"] * 5) == 0
    segment = evaluate(Segment.new(0, POLICY), arrivals(_halves(2)), 0, POLICY).segment
    assert segment
    segment = evaluate(segment, arrivals([Half(9, immunity_ms=DUE_MS + 700)]), 0, POLICY).segment
    assert segment
    first = evaluate(segment, Arrivals(), DUE_MS, POLICY, allowance)
    assert first.timer_ms == DUE_MS + 700  # one of two was allowed, and the other's turn is in 5 s


@pytest.mark.parametrize(("groups", "taken"), [(["a"] * 3, [1, 1, 0]), (["a", "b", "a", "a", "c"], [1, 1, 1, 0, 0])])
def test_what_may_fire_is_counted_by_group_and_altogether(groups: list[str], taken: list[int]) -> None:
    allowance = Allowance(RunLimits(events=3, group_events=2, group_least=0))
    assert _taken(allowance, groups) == [bool(one) for one in taken]
