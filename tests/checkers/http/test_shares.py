"""What is shared among groups: nobody takes all, and what comes back is there again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.http.shares import OwnMeansError, Shares, connections_in_all, is_ours


def taken(shares: Shares, group: str) -> int:
    """Take as many as the group gets."""
    number = 0
    while shares.take(group):
        number += 1
    return number


def test_one_group_alone_gets_a_good_part_and_never_all() -> None:
    assert taken(Shares(1_000), "orders") == 375


@pytest.mark.parametrize("groups", [2, 10, 40, 100])
def test_when_all_others_hold_what_they_can_the_next_one_still_gets_some(groups: int) -> None:
    shares = Shares(1_000)
    for number in range(groups):
        assert taken(shares, f"hangs-{number}") >= 1
    assert shares.take("orders")


def test_what_comes_back_makes_the_shares_equal() -> None:
    shares = Shares(1_000)
    assert taken(shares, "a") > 1.4 * taken(shares, "b")
    for _ in range(20):  # both ask for more all the time, and give back a tenth in turn
        for group in ("a", "b"):
            shares.give(group, shares.held(group) // 10)
        for group in ("a", "b"):
            taken(shares, group)
    assert shares.held("a") == pytest.approx(shares.held("b"), rel=0.1)


def test_the_smallest_total_serves_one_after_the_other() -> None:
    shares = Shares(1)
    assert shares.take("a")
    assert not shares.take("a")
    assert not shares.take("b")
    shares.give("a")
    assert shares.take("b")


def test_one_that_is_larger_than_a_share_is_taken_by_who_holds_nothing() -> None:
    shares = Shares(100)
    assert not shares.take("a", 101)
    assert shares.take("a", 90)
    assert not shares.take("a", 1)
    assert shares.take("b", 10)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60)), max_size=60), st.data())
def test_nothing_is_lost_or_given_twice(asked: list[tuple[str, int]], data: st.DataObject) -> None:
    shares = Shares(100)
    held: list[tuple[str, int]] = []
    for group, amount in asked:
        fits = amount <= shares.room(group)
        taken_now = shares.take(group, amount)
        assert taken_now == fits
        if taken_now:
            held.append((group, amount))
        assert shares.free == 100 - sum(amount for _, amount in held) >= 0
        if held and data.draw(st.booleans()):  # type: ignore[arg-type]  # mypy takes it for the list above
            shares.give(*held.pop())
    for one in held:
        shares.give(*one)
    assert (shares.free, shares._held) == (100, {})


def test_connections_are_a_third_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, connections in ((1_024, 266), (64, 8), (10**6, 4_096), (-1, 4_096)):
        monkeypatch.setattr("resource.getrlimit", lambda _, files=files: (files, files))
        assert connections_in_all() == connections


def test_what_is_ours_is_found_behind_other_errors() -> None:
    def wrapped(error: Exception) -> Exception:
        found = LookupError()
        found.__cause__ = error
        return found

    assert is_ours(wrapped(OSError(24, "Too many open files")))
    assert is_ours(OwnMeansError("busy"))
    assert not is_ours(wrapped(ConnectionRefusedError(111, "refused")))
