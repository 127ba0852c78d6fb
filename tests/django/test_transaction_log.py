"""The log on Django's connections: what it has beside ``tests/sql/test_transaction_log.py``, of which it is a face."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from checkback import ConfigurationError, LocalTransactionState, TransactionBlockedError
from checkback.dbapi.databases import fetched
from checkback.dbapi.states import LOCK_TIMEOUTS
from checkback.django import DjangoTransactionLog
from tests.django.shop import DjangoShop, question
from torture.local_mariadb import ON_MYSQL

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.mark.parametrize("kind", ["sqlite", "postgresql-serializable", "mariadb-serializable"], indirect=True)
def test_a_check_leaves_the_connection_as_it_was(shop: DjangoShop, thread: ThreadPoolExecutor) -> None:
    names = {
        "sqlite": ["PRAGMA busy_timeout"],
        "postgresql": ["SHOW lock_timeout", "SHOW transaction_isolation"],
        "mysql": [
            LOCK_TIMEOUTS,
            "SELECT @@SESSION.transaction_isolation" if ON_MYSQL else "SELECT @@SESSION.tx_isolation",
        ],
    }[connection.vendor]

    def values() -> list[Any]:
        return [fetched(connection, name) for name in names]

    before = values()
    assert shop.check(1) is ROLLBACK
    assert values() == before
    with transaction.atomic():
        shop.log.record("tx-2")
        assert thread.submit(shop.check_apart, 2).result() is UNKNOWN
    assert values() == before


def test_a_check_inside_an_atomic_is_refused_since_its_row_might_be_rolled_back(shop: DjangoShop) -> None:
    with pytest.raises(ConfigurationError, match="check_local_transaction is inside"):  # noqa: SIM117  (the test is what is inside)
        with transaction.atomic():
            shop.check(1)
    assert shop.rows() == []


def test_a_record_outside_an_atomic_is_refused(shop: DjangoShop) -> None:
    with pytest.raises(ConfigurationError, match="belongs inside"):
        shop.log.record("tx-1")
    assert shop.rows() == []


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
