"""How many retries are moved in one transaction."""

import pytest

from streaming.later.forwarding import MOST_AT_ONCE, after_failing, after_success


def test_half_as_many_are_tried_down_to_one() -> None:
    assert [after_failing(count) for count in (MOST_AT_ONCE, 7, 2, 1)] == [MOST_AT_ONCE // 2, 3, 1, 1]


def test_twice_as_many_are_tried_where_that_leaves_time() -> None:
    assert after_success(4, 0.1) == 8
    assert after_success(4, 0.3) == 4
    assert after_success(MOST_AT_ONCE, 0.0) == MOST_AT_ONCE


@pytest.mark.parametrize("taken", [1, 3, 30, 10_000])
def test_whatever_brokers_take_in_the_time_there_is_each_gets_through(taken: int) -> None:
    """And it does not run out again and again: of a size that comes through slowly no more is tried."""
    at_once, left, failed = MOST_AT_ONCE, 2_000, 0
    while left:
        count = min(at_once, left)
        if count > taken:
            failed += 1
            at_once = after_failing(count)
        else:
            left -= count
            at_once = after_success(at_once, count / taken)
    assert failed <= 10


def test_one_that_is_refused_is_found_in_few_transactions() -> None:
    for bad in (0, 1, 249, 250, 498, 499):
        at_once, moved, failed = MOST_AT_ONCE, 0, 0
        while at_once > 1 or moved != bad:
            if moved <= bad < moved + at_once:
                failed += 1
                at_once = after_failing(at_once)
            else:
                moved += at_once
                at_once = after_success(at_once, 0.0)
        assert failed <= 30
