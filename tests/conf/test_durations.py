"""Durations: read with their unit, spelled as short as they can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.durations import parse, spell


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("6s", 6_000),
        ("10min", 600_000),
        ("72h", 259_200_000),
        ("7d", 604_800_000),
        ("0s", 0),
        (" 3 s ", 3_000),
    ],
)
def test_a_number_with_its_unit_is_read(text: str, milliseconds: int) -> None:
    assert parse(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["6", "", "s", "6 S", "6sec", "1.5s", "-6s", "1h30min", "6m", "6s6", 6, 6.0, True, None]
)
def test_anything_else_is_refused_with_examples(text: object) -> None:
    with pytest.raises(ValueError, match="write a duration with its unit, like '500ms'") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (1, "1ms"),
        (1_500, "1500ms"),
        (60_000, "1min"),
        (90_000, "90s"),
        (3_600_000, "1h"),
        (259_200_000, "3d"),
    ],
)
def test_the_largest_unit_without_a_fraction_is_spelled(milliseconds: int, text: str) -> None:
    assert spell(milliseconds) == text


@given(st.integers(min_value=0, max_value=10**15))
def test_what_is_spelled_is_read_back(milliseconds: int) -> None:
    assert parse(spell(milliseconds)) == milliseconds


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(["ms", "s", "min", "h", "d"]))
def test_no_spelling_has_a_larger_number_than_was_written(number: int, unit: str) -> None:
    written = f"{number}{unit}"
    again = spell(parse(written))
    assert parse(again) == parse(written)
    assert int(again.rstrip("mshind")) <= number
