"""What only MySQL and MariaDB do, on Django's connections: see ``tests/sql/test_mysql.py``, which has the rest."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import OperationalError, connection, connections, transaction

from checkback import ConfigurationError, LocalTransactionState, Message, RecordLostError
from checkback.consumer import ConsumeResult
from checkback.dbapi.states import mysql_code
from checkback.django import DjangoInbox, DjangoTransactionLog, process, transactional
from checkback.django.models import LoggedTransaction
from checkback.django.testing import answer_of
from checkback.testing import RecordingTransport
from examples.django_shop.models import PaidOrder
from tests.django.shop import DjangoShop, drop_tables, in_place, make_tables, question
from tests.place import wait_until

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
ORDER = Message("points", b"1")
LOCK_TIMEOUT, DEADLOCK = 1205, 1213
WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"

pytestmark = pytest.mark.parametrize("kind", ["mariadb-repeatable-read"], indirect=True)


@contextmanager
def another() -> Iterator[Any]:
    """A connection of somebody else's, in a transaction that is rolled back."""
    one = connections.create_connection("default")
    one.inc_thread_sharing()
    one.set_autocommit(False)
    try:
        yield one
        one.rollback()
    finally:
        one.close()


def run(on: Any, *statements: str) -> None:
    with on.cursor() as cursor:
        for one in statements:
            cursor.execute(one)


def waits() -> bool:
    with another() as looking, looking.cursor() as cursor:
        cursor.execute(WAITING)
        return cursor.fetchone() is not None


def swallow_a_deadlock() -> None:
    """Ours loses, since it has written less: InnoDB rolls it back, and begins another without a word."""
    change = "UPDATE django_shop_paidorder SET number = number + 1000 WHERE number = "
    with another() as other, ThreadPoolExecutor(1) as thread:
        weight = ", ".join(f"({number})" for number in range(300, 310))
        run(other, f"INSERT INTO django_shop_paidorder VALUES {weight}", f"{change}101")  # noqa: S608  (ours)
        run(connection, f"{change}100")
        waiting = thread.submit(run, other, f"{change}100")
        wait_until(waits, "the wait")
        with pytest.raises(OperationalError) as raised:
            run(connection, f"{change}101")
        assert mysql_code(raised.value) == DEADLOCK
        waiting.result(60)


@pytest.fixture
def orders(shop: DjangoShop) -> None:
    shop.order(100)
    shop.order(101)


def test_a_block_that_lost_its_record_in_a_deadlock_does_not_commit(
    shop: DjangoShop, orders: None, recording: RecordingTransport
) -> None:
    with pytest.raises(RecordLostError), transactional(ORDER):  # noqa: PT012  (what is inside is the test)
        swallow_a_deadlock()
        shop.order(1)
    assert recording.committed == []
    assert answer_of(recording.transactions[0]) is ROLLBACK
    assert not shop.sold(1)


def test_a_record_that_timed_out_and_was_swallowed_does_not_commit(shop: DjangoShop) -> None:
    def sell() -> None:
        with transaction.atomic():
            run(connection, "SET SESSION innodb_lock_wait_timeout = 1")
            shop.order(1)
            with pytest.raises(OperationalError) as raised:
                shop.log.record("tx-1")
            assert mysql_code(raised.value) == LOCK_TIMEOUT
            shop.log.refuse_lost("tx-1")

    with another() as first:
        run(first, "INSERT INTO checkback_transactions VALUES ('tx-1', 'committed', UTC_TIMESTAMP(6))")
        with pytest.raises(RecordLostError):
            sell()
    assert shop.check(1) is ROLLBACK
    assert not shop.sold(1)


def test_an_effect_whose_memory_was_lost_in_a_deadlock_is_not_kept(shop: DjangoShop, orders: None) -> None:
    inbox = DjangoInbox("points")

    @inbox.handler
    def book(_message: str) -> None:
        if deadlocks:
            swallow_a_deadlock()
        shop.order(1)

    def book_by_hand() -> None:
        with transaction.atomic(), inbox.once("tx-1"):
            swallow_a_deadlock()
            shop.order(1)

    deadlocks = True
    for booking in (lambda: book("tx-1"), book_by_hand):
        with pytest.raises(RecordLostError):
            booking()
        assert not shop.sold(1)
    deadlocks = False
    assert [book("tx-1"), book("tx-1")] == [ConsumeResult.SUCCESS] * 2
    assert shop.sold(1)


def found() -> list[str]:
    return [str(one.id) for one in run_checks(databases=["default"]) if str(one.id).startswith("checkback.")]


@pytest.mark.parametrize("table", ["checkback_transactions", "checkback_inbox"])
def test_a_table_without_transactions_is_refused(
    shop: DjangoShop, recording: RecordingTransport, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(connection, f"ALTER TABLE {table} ENGINE = MyISAM")
    assert found() == ["checkback.E010"]
    refused = pytest.raises(ConfigurationError, match=r"kept by MyISAM, not by InnoDB.*ALTER TABLE")
    with refused:
        make_tables("default")
    if table == "checkback_inbox":
        with refused, transaction.atomic(), DjangoInbox("points").once("tx-1"):
            shop.order(1)
    else:
        process._log.cache_clear()  # which remembers the tables of other tests
        with refused, transactional(ORDER):
            shop.order(1)
        with refused:
            shop.check(1)
        assert shop.rows() == []
    assert not PaidOrder.objects.exists()


def test_a_model_without_transactions_is_named(shop: DjangoShop) -> None:
    assert found() == []
    run(connection, f"ALTER TABLE {PaidOrder._meta.db_table} ENGINE = MyISAM")
    assert found() == ["checkback.W012"]


def test_a_table_whose_key_is_text_is_refused(shop: DjangoShop) -> None:
    run(connection, "ALTER TABLE checkback_transactions MODIFY transaction_id VARCHAR(64)")
    assert found() == ["checkback.E010"]
    with pytest.raises(ConfigurationError, match="'A' and 'a'"), transaction.atomic():
        shop.log.record("tx-1")


def test_models_tell_apart_what_a_collation_takes_for_the_same(shop: DjangoShop) -> None:
    for one in ("a", "A", "ä"):
        with transaction.atomic():
            shop.log.record(one)
    assert LoggedTransaction.objects.get(transaction_id="a").pk == "a"
    assert sorted(LoggedTransaction.objects.values_list("pk", flat=True)) == ["A", "a", "ä"]
    assert [one.pk for one in LoggedTransaction.objects.filter(pk__contains="a")] == ["a"]
    assert [one.pk for one in LoggedTransaction.objects.filter(pk__in=["A", "b"])] == ["A"]


@pytest.mark.parametrize("settings", ["SET SESSION sql_mode = ''", "SET NAMES latin1"])
def test_nothing_is_cut_off_or_turned_into_something_else(shop: DjangoShop, settings: str) -> None:
    """Not strict, a server keeps the first 64 bytes: another transaction's name."""
    with in_place("default", {**connections.databases["default"], "OPTIONS": {"init_command": settings}}):
        with pytest.raises(ValueError, match="has 65 bytes"), transaction.atomic():
            shop.log.record("x" * 65)
        with transaction.atomic():
            shop.log.record("ä")
    assert shop.rows() == [("ä", "committed")]


@pytest.mark.parametrize("zone", ["+00:00", "-09:30"])
def test_ages_are_utc_with_microseconds_in_whatever_zone_the_session_is(shop: DjangoShop, zone: str) -> None:
    options = {"init_command": f"SET SESSION time_zone = '{zone}'"}
    before = datetime.now(UTC)
    with in_place("default", {**connections.databases["default"], "OPTIONS": options}):
        shop.sell(1)
        assert before <= LoggedTransaction.objects.get().recorded_at <= datetime.now(UTC)
        assert shop.log.prune(timedelta(minutes=1)) == 0
    assert shop.log.prune(timedelta(microseconds=1)) == 1


def test_pruning_does_not_wait_for_a_transaction_that_is_running(shop: DjangoShop) -> None:
    shop.sell(1)
    with another() as running:
        run(running, "INSERT INTO checkback_transactions VALUES ('tx-2', 'committed', '2020-01-01')")
        assert shop.log.prune(timedelta(microseconds=1)) == 1
        assert DjangoTransactionLog(lock_timeout_ms=1).check_local_transaction(question(3)) is ROLLBACK


def test_migrate_makes_binary_keys_and_zero_takes_them_away(shop: DjangoShop) -> None:
    drop_tables("default")
    call_command("migrate", "checkback", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT CAST(data_type AS CHAR) FROM information_schema.columns WHERE table_schema = DATABASE() "
            "AND table_name LIKE 'checkback%%' AND column_key = 'PRI'"
        )
        assert cursor.fetchall() == (("varbinary",),) * 3
    call_command("migrate", "checkback", "zero", verbosity=0)
    assert "checkback_inbox" not in connection.introspection.table_names()
