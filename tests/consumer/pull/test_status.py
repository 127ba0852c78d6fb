"""The nine statuses of a pull, by name, as the pure table has them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer.pull.status import Facts, PullStatus, Read, Verdict, judge
from checkback.kafka.bounds import Bounds

PAGE = Path(__file__).parents[3] / "docs" / "pull-consumer.md"

KEPT = Bounds(10, 20)
NEVER_DELETED = Bounds(0, 20)
NEVER_WRITTEN = Bounds(0, 0)
EMPTIED = Bounds(20, 20)

CASES = {
    PullStatus.FOUND: [(Facts(12, KEPT, Read(15, looked_at=3, matched=2)), 15)],
    PullStatus.NO_MATCHED_MESSAGE: [(Facts(12, KEPT, Read(15, looked_at=3)), 15)],
    PullStatus.NO_MESSAGE_IN_QUEUE: [(Facts(0, NEVER_WRITTEN), 0), (Facts(7, NEVER_WRITTEN), 0)],
    PullStatus.NO_MATCHED_LOGIC_QUEUE: [(Facts(0, None), 0), (Facts(7, None), 0)],
    PullStatus.OFFSET_TOO_SMALL: [(Facts(9, KEPT), 10), (Facts(0, EMPTIED), 20)],
    PullStatus.OFFSET_OVERFLOW_ONE: [(Facts(20, KEPT), 20), (Facts(20, EMPTIED), 20)],
    PullStatus.OFFSET_OVERFLOW_BADLY: [(Facts(21, KEPT), 20), (Facts(21, NEVER_DELETED), 0), (Facts(30, EMPTIED), 20)],
    PullStatus.OFFSET_FOUND_NULL: [(Facts(12, KEPT, Read(20)), 20)],
    PullStatus.MESSAGE_WAS_REMOVING: [(Facts(9, KEPT, Read(9, gone=True)), 10)],
}


def test_there_are_nine_and_each_has_a_case() -> None:
    assert len(PullStatus) == 9
    assert CASES.keys() == set(PullStatus)


@pytest.mark.parametrize(
    ("status", "facts", "next_offset"),
    [pytest.param(status, facts, then, id=status) for status, cases in CASES.items() for facts, then in cases],
)
def test_the_status_and_the_corrected_offset(status: PullStatus, facts: Facts, next_offset: int) -> None:
    assert judge(facts) == Verdict(status, next_offset)


def test_within_the_bounds_the_log_has_to_be_read() -> None:
    assert judge(Facts(10, KEPT)) is None
    assert judge(Facts(19, KEPT)) is None


def test_an_offset_that_was_gone_and_is_there_again_is_read_again() -> None:
    assert judge(Facts(12, KEPT, Read(12, gone=True))) is None


def test_a_log_that_was_cut_while_it_was_read_is_too_short() -> None:
    assert judge(Facts(25, KEPT, Read(25, gone=True))) == Verdict(PullStatus.OFFSET_OVERFLOW_BADLY, 20)


def test_what_was_read_counts_though_the_bounds_have_moved_since() -> None:
    assert judge(Facts(9, KEPT, Read(10, looked_at=1, matched=1))) == Verdict(PullStatus.FOUND, 10)


@given(st.integers(0, 60), st.integers(0, 30), st.integers(0, 30))
def test_who_follows_the_corrections_gets_to_where_messages_are_or_will_come(offset: int, low: int, more: int) -> None:
    bounds = Bounds(low, low + more)
    first = judge(Facts(offset, bounds))
    if first is None or first.next_offset == offset:
        return
    again = judge(Facts(first.next_offset, bounds))
    assert again is None or again.next_offset == first.next_offset
    assert bounds.first <= first.next_offset <= bounds.end


def test_the_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(PullStatus)
