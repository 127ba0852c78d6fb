"""The inbox on Django's connections: what it has beside ``tests/sql/test_inbox.py``, of which it is a face."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, Error, connection, transaction

from checkback import CheckbackError, ConfigurationError, RecordLostError
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.django import DjangoInbox
from checkback.django.inbox import prune_inbox
from tests.django.databases import EACH
from tests.django.shop import DjangoShop

SUCCESS = ConsumeResult.SUCCESS
EACH_ONE = pytest.mark.parametrize("kind", EACH, indirect=True)
SERVERS = pytest.mark.parametrize("kind", EACH[1:], indirect=True)
SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)


def message(number: int, **parts: Any) -> ReceivedMessage:
    headers = parts.pop("headers", [("cb-id", b"tx-%d" % number)])
    return ReceivedMessage("paid", 0, number, None, b"%d" % number, headers, **parts)


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


@EACH_ONE
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


@SERVERS
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


@EACH_ONE
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
    with transaction.atomic(), DjangoInbox("mail").once("tx-1"):
        pass
    with transaction.atomic(), points.once("tx-1") as first:
        assert first
    with transaction.atomic(), parcels.once("tx-1") as first:
        assert not first
    assert prune_inbox("default", timedelta(days=30)) == 5
    assert prune_inbox("default", timedelta(microseconds=1), batch=1) == 2


@POSTGRESQL
def test_what_a_block_of_ones_own_swallows_is_no_silent_rollback(shop: DjangoShop) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, and the listener would say success."""
    with pytest.raises(Error, match="current transaction is aborted"):  # noqa: PT012, SIM117  (the test is what is inside)
        with transaction.atomic(), DjangoInbox("points").once("tx-1"):
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT no_such_column FROM checkback_inbox")
            except DatabaseError:
                pass


@EACH_ONE
def test_a_models_error_that_a_block_of_ones_own_swallows_is_no_silent_rollback(shop: DjangoShop) -> None:
    """Django rolls effect and memory back, and the listener would say success."""
    shop.order(1)
    inbox = DjangoInbox("points")
    with pytest.raises(RecordLostError, match="the message comes again"), transaction.atomic(), inbox.once("tx-1"):  # noqa: PT012  (the test is what is inside)
        shop.order(2)
        with suppress(DatabaseError):
            shop.order(1)
    assert not shop.sold(2)
    with transaction.atomic(), inbox.once("tx-1") as first:
        assert first


def test_a_name_that_is_no_groups_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="1 to 255 bytes"):
        DjangoInbox("")
