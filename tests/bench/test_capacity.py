"""The capacity page says what the function says, and that is near what was measured where something was."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import Load, Needs, needs_of

PAGE = Path(__file__).parents[2] / "docs" / "capacity.md"
RATES = (100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def row(rate: int, needs: Needs) -> str:
    cells = [
        f"{rate:,}",
        str(needs.state_partitions),
        f"{needs.job_cores:g}",
        f"{needs.broker_cores:g}",
        f"{needs.batch_seconds:g} s",
        f"{needs.p50_seconds:g} s",
        f"{needs.memory_mib / 1024:.1f} GiB",
        f"{needs.kafka_bytes_per_second / 1e6:,.1f} MB/s",
        f"{needs.kafka_kept_bytes / 1e12:,.1f} TB",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_page_says_so() -> None:
    wanted = [row(rate, needs_of(Load(rate))) for rate in RATES]
    said = PAGE.read_text(encoding="utf-8").partition("<!-- capacity:")[2].partition("<!-- end -->")[0]
    assert said.splitlines()[3:] == wanted


@pytest.mark.parametrize(("rate", "least", "most"), [(200, 0.5, 0.9), (3_000, 0.5, 1.1)])
def test_it_is_near_what_was_measured(rate: int, least: float, most: float) -> None:
    assert least < needs_of(Load(rate)).p50_seconds < most


@given(st.floats(1, 2e6), st.integers(0, 100_000), st.floats(0, 86_400))
def test_more_of_anything_needs_no_less(rate: float, value_bytes: int, open_seconds: float) -> None:
    less = needs_of(Load(rate, value_bytes, open_seconds))
    more = needs_of(Load(rate * 2, value_bytes, open_seconds))
    assert less.state_partitions <= more.state_partitions
    assert less.kafka_kept_bytes <= more.kafka_kept_bytes
    assert less.batch_seconds > 0
    assert less.memory_mib <= more.memory_mib
