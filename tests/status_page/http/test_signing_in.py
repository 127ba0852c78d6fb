"""Sessions, and what a wrong token costs."""

import pytest

from status_page.http.signing_in import SigningIn, same

TOKEN = "the token of the job"  # noqa: S105  (of no job)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def signing_in(clock: Clock) -> SigningIn:
    return SigningIn(TOKEN, clock)


def wrong(signing_in: SigningIn, times: int, address: str = "192.0.2.1") -> None:
    for _ in range(times):
        assert not signing_in.admit("wrong", address).admitted


def test_only_the_token_admits(signing_in: SigningIn) -> None:
    assert signing_in.admit(TOKEN, "192.0.2.1").admitted
    for token in ("", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), "é\ud800"):
        assert not signing_in.admit(token, "").admitted


def test_without_a_token_nobody_is_admitted() -> None:
    assert not SigningIn("").possible
    assert not SigningIn("").admit("", "192.0.2.1").admitted


def test_after_five_wrong_tokens_an_address_waits_and_then_longer(signing_in: SigningIn, clock: Clock) -> None:
    wrong(signing_in, 5)
    assert signing_in.admit(TOKEN, "192.0.2.1") == (False, 1.0)
    assert signing_in.admit(TOKEN, "192.0.2.2").admitted
    waits = []
    for _ in range(9):
        clock.now += signing_in.admit(TOKEN, "192.0.2.1").wait_seconds
        wrong(signing_in, 1)
        waits.append(signing_in.admit(TOKEN, "192.0.2.1").wait_seconds)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60, 60]
    clock.now += 60
    assert signing_in.admit(TOKEN, "192.0.2.1").admitted
    wrong(signing_in, 4)
    assert signing_in.admit(TOKEN, "192.0.2.1").admitted


def test_all_addresses_of_this_machine_wait_together(signing_in: SigningIn) -> None:
    """A local program may connect from any of 127.0.0.0/8."""
    for address in ("127.0.0.1", "127.0.0.2", "127.8.8.8", "::1", "::ffff:127.0.0.9"):
        wrong(signing_in, 1, address)
    assert signing_in.admit(TOKEN, "127.0.0.77").wait_seconds == 1


def test_whoever_guesses_for_days_still_waits(signing_in: SigningIn, clock: Clock) -> None:
    for _ in range(1_100):
        wrong(signing_in, 1)
        clock.now += 60
    wrong(signing_in, 1)
    assert signing_in.admit(TOKEN, "192.0.2.1").wait_seconds == 60


def test_addresses_of_one_ipv6_network_are_one(signing_in: SigningIn) -> None:
    wrong(signing_in, 5, "2001:db8:1:2::1")
    assert signing_in.admit(TOKEN, "2001:db8:1:2:ffff::9").wait_seconds
    assert signing_in.admit(TOKEN, "2001:db8:1:3::1").admitted
    wrong(signing_in, 5, "::ffff:192.0.2.1")
    assert signing_in.admit(TOKEN, "::ffff:192.0.2.2").admitted


def test_wrong_tokens_are_forgotten_and_addresses_are_bounded(signing_in: SigningIn, clock: Clock) -> None:
    wrong(signing_in, 4)
    clock.now += 901
    wrong(signing_in, 4)
    assert signing_in.admit(TOKEN, "192.0.2.1").admitted
    for number in range(1_500):
        wrong(signing_in, 1, f"198.51.{number // 250}.{number % 250}")
    assert len(signing_in._guesses) <= 1_000


def test_a_session_ends_after_eight_hours_and_when_it_is_ended(signing_in: SigningIn, clock: Clock) -> None:
    first, second = signing_in.begin(), signing_in.begin()
    assert len({first.name, second.name, first.form_token, second.form_token}) == 4
    assert signing_in.session(first.name) == first
    signing_in.end(first.name)
    assert signing_in.session(first.name) is None
    clock.now += 8 * 3_600
    assert signing_in.session(second.name) is None
    assert signing_in.session("") is None


def test_there_are_a_hundred_sessions_at_most(signing_in: SigningIn) -> None:
    first = signing_in.begin()
    for _ in range(100):
        signing_in.begin()
    assert signing_in.session(first.name) is None
    assert len(signing_in._sessions) == 100


def test_secrets_are_compared_whatever_is_shown() -> None:
    assert same("abc", "abc")
    assert not same("\ud800", "abc")
