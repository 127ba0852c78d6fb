"""The inbox on Django's connections."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, Error, connection, transaction

from checkback import CheckbackError, ConfigurationError
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.django import DjangoInbox
from tests.django.shop import DjangoShop

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql-read-committed"], indirect=True)
SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)


def message(number: int, **parts: Any) -> ReceivedMessage:
    headers = parts.pop("headers", [("cb-id", b"tx-%d" % number)])
    return ReceivedMessage("paid", 0, number, None, b"%d" % number, headers, **parts)


def test_a_message_has_its_effect_once(shop: DjangoShop) -> None:
    inbox = DjangoInbox("points")

    @inbox.handler
    def book(got: ReceivedMessage) -> None:
        shop.order(got.offset)

    assert [book(message(1)), book(message(1)), book(message(2))] == [SUCCESS] * 3
    assert [shop.sold(1), shop.sold(2), inbox.passed_over, inbox.figures().passed_over] == [True, True, 1, 1]


@BOTH
def test_what_fails_or_says_later_comes_again(shop: DjangoShop) -> None:
    answers = iter([LookupError("no stock"), LATER, None])

    @DjangoInbox("points").handler
    def book(got: ReceivedMessage) -> ConsumeResult | None:
        shop.order(got.offset)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(LookupError):
        book(message(1))
    assert [book(message(1)), shop.sold(1)] == [LATER, False]
    assert [book(message(1)), shop.sold(1)] == [SUCCESS, True]


@SQLITE
def test_what_is_no_answer_is_rolled_back(shop: DjangoShop) -> None:
    @DjangoInbox("points").handler
    def book(got: ReceivedMessage) -> Any:
        shop.order(got.offset)
        return True

    with pytest.raises(TypeError, match="must return a ConsumeResult or None"):
        book(message(1))
    assert not shop.sold(1)

    async def booked(_got: ReceivedMessage) -> None: ...

    with pytest.raises(ConfigurationError, match="plain 'def'"):
        DjangoInbox("points").handler(booked)  # type: ignore[arg-type]  # that is the mistake


@SQLITE
def test_what_django_would_roll_back_without_a_word_comes_again(shop: DjangoShop) -> None:
    @DjangoInbox("points").handler
    def book(got: ReceivedMessage) -> None:
        shop.order(got.offset)
        transaction.set_rollback(True)

    for _ in "12":
        with pytest.raises(CheckbackError, match="the message comes again"):
            book(message(1))
    assert not shop.sold(1)


@POSTGRESQL
def test_a_swallowed_error_of_a_statement_comes_again(shop: DjangoShop) -> None:
    @DjangoInbox("points").handler
    def book(got: ReceivedMessage) -> None:
        shop.order(got.offset)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT no_such_column FROM checkback_inbox")
        except DatabaseError:
            pass

    for _ in "12":
        with pytest.raises(Error, match="current transaction is aborted"):
            book(message(1))
    assert not shop.sold(1)


@BOTH
def test_a_block_of_ones_own(shop: DjangoShop) -> None:
    inbox = DjangoInbox("points")
    firsts = []
    for _ in "12":
        with transaction.atomic(), inbox.once(message(1)) as first:
            firsts.append(first)
    assert firsts == [True, False]
    with transaction.atomic(), pytest.raises(LookupError), inbox.once("tx-2"):
        raise LookupError  # handled before it reaches the atomic
    with transaction.atomic(), inbox.once("tx-2") as first:
        assert first
    with pytest.raises(ConfigurationError, match="belongs inside"), inbox.once("tx-3"):
        pass


@POSTGRESQL
def test_of_two_at_the_same_time_one_is_first(shop: DjangoShop) -> None:
    inbox = DjangoInbox("points")

    @inbox.handler
    def book(got: ReceivedMessage) -> None:
        shop.order(got.offset)

    def booked() -> ConsumeResult:
        try:
            return book(message(1))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert {one.result() for one in [threads.submit(booked) for _ in range(8)]} == {SUCCESS}
    assert inbox.passed_over == 7


@BOTH
def test_groups_have_effects_of_their_own_and_are_pruned_apart(shop: DjangoShop) -> None:
    points, parcels = DjangoInbox("points"), DjangoInbox("parcels")
    for inbox in (points, parcels):
        for number in range(5):
            with transaction.atomic(), inbox.once(f"tx-{number}") as first:
                assert first
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkback_inbox SET received_at = '2020-01-01 00:00:00.000000'")
    assert points.prune(timedelta(days=30), batch=2) == 5
    assert points.prune(timedelta(days=30)) == 0
    with transaction.atomic(), points.once("tx-1") as first:
        assert first
    with transaction.atomic(), parcels.once("tx-1") as first:
        assert not first


@BOTH
def test_a_row_by_place_of_before_0_1_0_still_counts(shop: DjangoShop) -> None:
    inbox = DjangoInbox("points")
    with transaction.atomic(), inbox.once("paid:0:1"):
        pass
    with transaction.atomic(), inbox.once(message(1, headers=(), timestamp_ms=1_000)) as first:
        assert not first
    with transaction.atomic(), inbox.once(message(1, headers=(), timestamp_ms=4_000_000_000_000)) as first:
        assert first


def test_a_name_that_is_no_groups_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="1 to 255 bytes"):
        DjangoInbox("")
