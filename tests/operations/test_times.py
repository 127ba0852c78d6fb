"""Times and durations as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.operations.times import said_duration, said_time


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (99, "0 s"),
        (300, "0.3 s"),
        (1_000, "1 s"),
        (59_999, "59 s"),
        (61_000, "1 min"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (4 * 86_400_000 + 3 * 3_600_000 + 60_000, "4 d 3 h"),
        (-61_000, "-1 min"),
    ],
)
def test_a_duration(ms: int, text: str) -> None:
    assert said_duration(ms) == text


def test_a_time() -> None:
    assert said_time(1_767_225_600_000) == "2026-01-01 00:00:00"


@given(st.integers() | st.sampled_from([10**400, -(10**400)]))
def test_no_number_is_too_large(ms: int) -> None:
    assert said_time(ms)
    assert said_duration(ms)
