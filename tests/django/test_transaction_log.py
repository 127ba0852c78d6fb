"""The log on Django's connections: the cases of ``tests/sql/test_transaction_log.py``, on SQLite and PostgreSQL."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import Error, connection, connections, transaction

from checkback import ConfigurationError, DuplicateTransactionError, LocalTransactionState, TransactionBlockedError
from checkback.django import DjangoTransactionLog
from tests.django.conftest import LEVELS
from tests.django.shop import DjangoShop, question
from tests.place import wait_until

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
RACES = 60


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_a_committed_transaction_is_answered_with_commit_as_often_as_asked(shop: DjangoShop) -> None:
    shop.sell(1)
    assert [shop.check(1), shop.check(1)] == [COMMIT, COMMIT]
    assert shop.rows() == [("tx-1", "committed")]


def test_what_never_ran_is_blocked_and_a_late_record_fails(shop: DjangoShop) -> None:
    assert [shop.check(1), shop.check(1)] == [ROLLBACK, ROLLBACK]
    with pytest.raises(TransactionBlockedError, match="Transaction tx-1 came too late"):
        shop.sell(1)
    assert shop.check(1) is ROLLBACK
    assert not shop.sold(1)
    assert shop.rows() == [("tx-1", "blocked")]


def test_what_is_recorded_twice_is_refused(shop: DjangoShop) -> None:
    shop.sell(1)
    with pytest.raises(DuplicateTransactionError, match="recorded already"):
        shop.sell(1)


def test_a_running_transaction_is_unknown_and_its_commit_is_found(shop: DjangoShop, thread: ThreadPoolExecutor) -> None:
    with transaction.atomic():
        shop.log.record("tx-1")
        shop.order(1)
        assert thread.submit(shop.check_apart, 1).result() is UNKNOWN
    assert shop.check(1) is COMMIT
    assert shop.sold(1)


def test_a_transaction_that_rolls_back_is_answered_with_rollback(shop: DjangoShop, thread: ThreadPoolExecutor) -> None:
    with pytest.raises(LookupError), transaction.atomic():  # noqa: PT012  (what is inside is the test)
        shop.log.record("tx-1")
        assert thread.submit(shop.check_apart, 1).result() is UNKNOWN
        raise LookupError
    assert shop.check(1) is ROLLBACK
    with pytest.raises(TransactionBlockedError):
        shop.sell(1)


def somebody_waits() -> bool:
    """For a transaction's end; of SQLite one cannot see it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
        return cursor.fetchone() is not None


@pytest.mark.parametrize(("rolls_back", "answer"), [(False, COMMIT), (True, ROLLBACK)])
def test_a_check_that_waits_gives_the_outcome(
    shop: DjangoShop,
    rolls_back: bool,  # noqa: FBT001  (a parameter)
    answer: str,
    thread: ThreadPoolExecutor,
) -> None:
    with transaction.atomic():
        shop.log.record("tx-1")
        checking = thread.submit(shop.check_apart, 1, 60_000)
        wait_until(checking.running if connection.vendor == "sqlite" else somebody_waits, "the wait")
        assert not checking.done()
        transaction.set_rollback(rolls_back)
    assert checking.result(60) == answer


def test_record_and_check_racing_never_contradict_each_other(shop: DjangoShop, kind: str) -> None:
    # round trips before the record, so that each side wins some races: a check on PostgreSQL has more of them
    before = 20 if kind in LEVELS else 3
    start = threading.Barrier(2)
    answers: list[LocalTransactionState] = []

    def checks() -> None:
        for number in range(RACES):
            start.wait(60)
            answers.append(shop.check(number, 2_000))
            start.wait(60)
        connections.close_all()

    asking = threading.Thread(target=checks)
    asking.start()
    for number in range(RACES):
        start.wait(60)
        try:
            shop.sell(number, number % before)
            sold = True
        except (TransactionBlockedError, Error):
            sold = False
        start.wait(60)
        assert shop.sold(number) is sold
        assert answers[number] in ({COMMIT, UNKNOWN} if sold else {ROLLBACK, UNKNOWN})
        assert shop.check(number) is (COMMIT if sold else ROLLBACK)
    asking.join(60)


@pytest.mark.parametrize("kind", list(LEVELS), indirect=True)
def test_a_check_before_the_record_blocks_a_running_transaction(
    shop: DjangoShop, kind: str, thread: ThreadPoolExecutor
) -> None:
    # what began before the check does not see its row: at the two higher levels the database says so itself
    expected = TransactionBlockedError if kind == "postgresql-read-committed" else Error
    with pytest.raises(expected), transaction.atomic():  # noqa: PT012  (what is inside is the test)
        shop.order(1)
        assert thread.submit(shop.check_apart, 1).result() is ROLLBACK
        shop.log.record("tx-1")
    assert not shop.sold(1)


def test_a_check_leaves_the_connection_as_it_was(shop: DjangoShop) -> None:
    setting = "PRAGMA busy_timeout" if connection.vendor == "sqlite" else "SHOW lock_timeout"

    def value() -> object:
        with connection.cursor() as cursor:
            cursor.execute(setting)
            return cursor.fetchone()

    before = value()
    shop.check(1)
    assert value() == before


def test_a_check_inside_an_atomic_is_refused_since_its_row_might_be_rolled_back(shop: DjangoShop) -> None:
    with pytest.raises(ConfigurationError, match="check_local_transaction is inside"):  # noqa: SIM117  (the test is what is inside)
        with transaction.atomic():
            shop.check(1)
    assert shop.rows() == []


def test_a_record_outside_an_atomic_is_refused(shop: DjangoShop) -> None:
    with pytest.raises(ConfigurationError, match="belongs inside"):
        shop.log.record("tx-1")
    assert shop.rows() == []


def test_what_is_old_is_pruned(shop: DjangoShop) -> None:
    shop.sell(1)
    assert shop.log.prune(timedelta(hours=1)) == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkback_transactions SET recorded_at = '2020-01-01 00:00:00.000000'")
    shop.sell(2)
    assert shop.log.prune(timedelta(days=30)) == 1
    assert shop.rows() == [("tx-2", "committed")]
    with pytest.raises(ConfigurationError):
        shop.log.prune(timedelta(0))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql-read-committed"], indirect=True)
def test_a_check_asks_all_databases(shop: DjangoShop, other: None, kind: str) -> None:
    log = DjangoTransactionLog(["default", "other"], lock_timeout_ms=100)
    with transaction.atomic(using="other"):
        log.record("tx-1", using="other")
    assert log.check_local_transaction(question(1)) is COMMIT
    assert log.check_local_transaction(question(2)) is ROLLBACK
    for alias in log.databases:
        with pytest.raises(TransactionBlockedError), transaction.atomic(using=alias):
            log.record("tx-2", using=alias)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_commit_in_one_database_wins_over_an_earlier_block_in_another(
    shop: DjangoShop, other: None, thread: ThreadPoolExecutor, kind: str
) -> None:
    log = DjangoTransactionLog(["default", "other"], lock_timeout_ms=100)

    def check() -> LocalTransactionState:
        try:
            return log.check_local_transaction(question(1))
        finally:
            connections.close_all()

    with transaction.atomic(using="other"):
        log.record("tx-1", using="other")
        assert thread.submit(check).result() is UNKNOWN  # "default" is blocked by now
    assert shop.rows() == [("tx-1", "blocked")]
    assert check() is COMMIT


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_database_that_checks_do_not_ask_is_refused(shop: DjangoShop, other: None, kind: str) -> None:
    with pytest.raises(ConfigurationError, match="Checks do not ask database 'other'"), transaction.atomic("other"):
        shop.log.record("tx-1", using="other")
