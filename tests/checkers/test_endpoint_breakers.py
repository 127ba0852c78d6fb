"""Breakers are kept by group and address, for as long as they may be needed, and only so many."""

import pytest

from checkers.breakers import EndpointBreakers

URL = "http://one/"


def failed(breakers: EndpointBreakers, group: str, url: str, now_ms: int, times: int = 5) -> None:
    for _ in range(times):
        breakers.failed(group, url, now_ms, "refused")


def is_open(breakers: EndpointBreakers, group: str, url: str = URL) -> bool:
    breaker = breakers.get(group, url)
    return breaker is not None and not breaker.closed


def test_what_one_group_finds_out_is_nothing_to_others() -> None:
    breakers = EndpointBreakers()
    failed(breakers, "orders", URL, 0)
    assert is_open(breakers, "orders")
    assert breakers.get("bills", URL) is None


def test_an_answer_forgets_it() -> None:
    breakers = EndpointBreakers()
    failed(breakers, "orders", URL, 0)
    breakers.succeeded("orders", URL)
    breakers.succeeded("bills", URL)
    assert len(breakers) == 0
    assert breakers._groups == {}


def test_those_not_touched_for_long_are_forgotten() -> None:
    breakers = EndpointBreakers(kept_ms=1_000)
    failed(breakers, "gone", URL, 0)
    failed(breakers, "orders", "http://old/", 0)
    failed(breakers, "orders", URL, 999)
    assert len(breakers) == 3
    failed(breakers, "orders", URL, 1_000)
    assert len(breakers) == 1
    assert is_open(breakers, "orders")


def test_a_group_with_many_dead_addresses_forgets_its_own() -> None:
    breakers = EndpointBreakers(per_group=10)
    failed(breakers, "bills", URL, 0)
    for number in range(1_000):
        failed(breakers, "orders", f"http://{number}/", 0)
    assert len(breakers) == 11
    assert is_open(breakers, "bills")
    assert is_open(breakers, "orders", "http://999/")


def test_only_so_many_groups_are_remembered() -> None:
    breakers = EndpointBreakers(groups=10)
    for number in range(100):
        failed(breakers, f"group-{number}", URL, 0)
    assert len(breakers) == 10
    assert is_open(breakers, "group-99")


def test_a_question_that_was_not_sent_leaves_the_probe_to_the_next() -> None:
    breakers = EndpointBreakers()
    failed(breakers, "orders", URL, 0)
    breaker = breakers.get("orders", URL)
    assert breaker is not None
    breakers.begin("orders", URL)
    assert not breaker.may_ask(10_000)
    breakers.give_up("orders", URL)
    assert breaker.may_ask(10_000)


def test_who_answers_is_known_until_it_fails_and_of_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.breakers._MOST_ANSWERING", 2)
    breakers = EndpointBreakers()
    assert not breakers.answers("orders", URL)
    breakers.succeeded("orders", URL)
    assert breakers.answers("orders", URL)
    assert not breakers.answers("bills", URL)
    failed(breakers, "orders", URL, 0, times=1)
    assert not breakers.answers("orders", URL)
    for url in ("http://a/", "http://b/", "http://a/", "http://c/"):
        breakers.succeeded("orders", url)
    assert [breakers.answers("orders", f"http://{name}/") for name in "abc"] == [True, False, True]
