"""When an endpoint is skipped. Time is a number here."""

import pytest

from checkers.breakers import UNASKED_MS, Breaker


def opened(now_ms: int = 0) -> Breaker:
    breaker = Breaker(failures=3, first_pause_ms=10, longest_pause_ms=60)
    for _ in range(3):
        breaker.begin()
        breaker.failed(now_ms, "refused")
    return breaker


def test_it_is_closed_at_first_and_after_a_few_failures() -> None:
    breaker = Breaker(failures=3)
    for _ in range(2):
        breaker.failed(0, "refused")
    assert breaker.closed
    assert breaker.may_ask(0)


def test_only_failures_in_a_row_open_it() -> None:
    breaker = Breaker(failures=3)
    for _ in range(10):
        breaker.failed(0, "refused")
        breaker.failed(0, "refused")
        breaker.succeeded()
    assert breaker.closed


def test_as_many_in_a_row_open_it_for_a_pause_and_it_says_why() -> None:
    breaker = opened(now_ms=100)
    assert not breaker.closed
    assert breaker.reason == "refused"
    assert not breaker.may_ask(109)
    assert breaker.may_ask(110)


def test_one_probe_at_a_time() -> None:
    breaker = opened()
    breaker.begin()
    assert not breaker.may_ask(10)
    assert not breaker.may_ask(10_000)


def test_a_probe_that_succeeds_closes_it_and_all_is_forgotten() -> None:
    breaker = opened()
    breaker.begin()
    breaker.succeeded()
    assert breaker.closed
    breaker.failed(11, "late")
    breaker.failed(11, "late")
    assert breaker.closed
    breaker.failed(11, "late")
    assert not breaker.may_ask(20)
    assert breaker.may_ask(21)


def test_each_probe_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    breaker, now_ms = opened(), 10
    for pause_ms in (20, 40, 60, 60):
        assert breaker.may_ask(now_ms)
        breaker.begin()
        breaker.failed(now_ms, "refused")
        assert not breaker.may_ask(now_ms + pause_ms - 1)
        now_ms += pause_ms
    assert breaker.may_ask(now_ms)


def test_questions_sent_before_it_opened_change_nothing_when_they_fail() -> None:
    breaker = opened()
    for now_ms in range(10):
        breaker.failed(now_ms, "late")
    assert breaker.may_ask(10)


def test_one_sent_before_it_opened_closes_it_when_it_is_answered() -> None:
    breaker = opened()
    breaker.succeeded()
    assert breaker.closed


@pytest.mark.parametrize(("failed", "pause_ms"), [(1, 10_000), (2, 20_000), (3, 25_000), (4, 25_000)])
def test_the_defaults_are_five_failures_ten_seconds_and_less_than_half_a_minute(failed: int, pause_ms: int) -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.failed(0, "refused")
    assert breaker.closed
    for _ in range(failed):
        breaker.begin()
        breaker.failed(0, "refused")
    assert not breaker.may_ask(pause_ms - 1)
    assert breaker.may_ask(pause_ms)


def test_it_is_shown_as_skipped_until_it_answers_or_nobody_needs_it() -> None:
    breaker = opened()
    assert breaker.skipped(9)
    assert breaker.skipped(11), "a probe is due"
    breaker.begin()
    assert breaker.skipped(100_000), "the probe is not answered"
    breaker.failed(100_000, "refused")
    assert breaker.skipped(100_020 + UNASKED_MS - 1)
    assert not breaker.skipped(100_020 + UNASKED_MS), "nobody had anything to ask"
    breaker.begin()
    breaker.succeeded()
    assert not breaker.skipped(100_000)
