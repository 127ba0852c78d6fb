"""How the page says times, numbers and reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.operations.in_doubt import InDoubt
from status_page import words
from status_page.facts import EndpointFacts, GroupFacts
from tests.status_page.browser import NOW_MS, doubtful


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (0.0424, "42 ms"),
        (0.96, "1.0 s"),
        (9.94, "9.9 s"),
        (59.6, "1 min"),
        (252, "4 min 12 s"),
        (3_600, "1 h"),
        (11_101, "3 h 5 min"),
        (86_400, "1 d"),
        (86_460, "1 d"),
        (187_200, "2 d 4 h"),
        (-3, "0 ms"),
    ],
)
def test_durations_are_said_as_people_do(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_ages_have_whole_seconds_and_none_from_the_future() -> None:
    assert words.age(NOW_MS - 252_999, NOW_MS) == "4 min 12 s"
    assert words.age(NOW_MS - 9_900, NOW_MS) == "9 s"
    assert words.age(NOW_MS - 1_000, NOW_MS) == "1 s"
    assert words.age(NOW_MS - 999, NOW_MS) == "just now"
    assert words.age(NOW_MS + 60_000, NOW_MS) == "just now"


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_any_time_that_somebody_has_written_can_be_said(time_ms: int) -> None:
    assert words.utc(time_ms)
    assert words.machine_time(time_ms) is not None
    assert words.age(time_ms, NOW_MS)
    assert words.age(NOW_MS, time_ms)


def test_times_numbers_and_sizes() -> None:
    assert words.utc(NOW_MS) == "2027-01-15 08:00:00 UTC"
    assert words.machine_time(NOW_MS) == "2027-01-15T08:00:00Z"
    assert [words.number(n) for n in (0, 7, 12.34, 99.96, 1234.5, 10**6)] == [
        "0",
        "7",
        "12.3",
        "100.0",
        "1,234",
        "1,000,000",
    ]
    assert [words.size(n) for n in (None, 0, 812, 1024, 1_310_720)] == ["none", "0 B", "812 B", "1.0 KiB", "1.2 MiB"]
    assert [words.count(n, "record") for n in (0, 1, 2_000)] == ["0 records", "1 record", "2,000 records"]


SKIPPED = EndpointFacts("http://a", "skipped", reason="connection refused")
WELL = EndpointFacts("http://b", "well")


@pytest.mark.parametrize(
    ("row", "endpoints", "said"),
    [
        (doubtful(last_answer="", attempt=1), (), "Asked for the first time, not answered yet"),
        (doubtful(), (), "Asked 2 times of 15, no verdict; its producers did not know"),
        (doubtful(attempt=2), (WELL,), "Asked 1 time of 15, no verdict; its producers did not know"),
        (doubtful(last_answer="unreachable"), (), "Nobody could be asked"),
        (
            doubtful(last_answer="unreachable"),
            (SKIPPED,),
            "Nobody could be asked; endpoint skipped: connection refused",
        ),
        (
            doubtful(asked_ms=NOW_MS - 20_000),
            (SKIPPED, SKIPPED),
            "Nobody can be asked; all 2 endpoints skipped: connection refused",
        ),
        (
            doubtful(asked_ms=NOW_MS - 20_000),
            (SKIPPED, WELL),
            "Asked 2 times of 15, no verdict; its producers did not know",
        ),
        (doubtful(last_answer="later"), (), "The last answer was later"),
        (doubtful(answered_ms=NOW_MS, remark="no such order"), (), "Asked 3 times of 15, no verdict; no such order"),
        (
            doubtful(last_answer="unreachable", answered_ms=NOW_MS, misses=2, remark="http://a: refused"),
            (),
            "Nobody could be asked; http://a: refused",
        ),
        (
            doubtful(answered_ms=NOW_MS, remark="<b>\x1b[2J" + "x" * 600),
            (),
            f"Asked 3 times of 15, no verdict; <b>\\x1b[2J{'x' * (199 - 10)}…",
        ),
    ],
)
def test_why_a_transaction_is_in_doubt(row: InDoubt, endpoints: tuple[EndpointFacts, ...], said: str) -> None:
    assert words.why_in_doubt(row, GroupFacts("orders", endpoints=endpoints)) == said


def test_a_group_without_an_endpoint_is_the_reason_at_once() -> None:
    row = doubtful(last_answer="", attempt=1, asked_ms=NOW_MS)
    limited = GroupFacts("orders", endpoints=(WELL,), answers_for=())
    assert words.why_in_doubt(row, limited) == f"Nobody can be asked; no working endpoint for {row.topic}"
    assert words.why_in_doubt(row, GroupFacts("orders", unasked=words.NO_ENDPOINT)) == (
        "Nobody can be asked; no endpoint: none is announced, and the settings name none"
    )


def test_a_try_at_which_nobody_was_reached_is_no_attempt() -> None:
    assert words.said_attempts(doubtful(last_answer="unreachable", attempt=1)) == "not asked yet: nobody reachable"
    missed = doubtful(last_answer="unreachable", attempt=1, answered_ms=NOW_MS)
    assert words.said_attempts(missed._replace(misses=7)) == "not asked yet: nobody reachable, 7 tries"
    assert words.said_attempts(missed._replace(misses=1)) == "not asked yet: nobody reachable"
    assert words.said_attempts(doubtful(last_answer="unreachable", attempt=3)) == "asked 2 of 15: nobody reachable"
    assert words.said_attempts(doubtful()) == "3 of 15"
