"""What only MySQL and MariaDB do: transactions that go on after an error, names that are alike, tables without any."""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, select, text
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError
from sqlalchemy.orm import Session

from checkback import (
    ConfigurationError,
    DuplicateTransactionError,
    LocalTransactionState,
    RecordLostError,
    TransactionBlockedError,
)
from checkback.consumer import ConsumeResult
from checkback.dbapi.states import is_lock_timeout
from checkback.sql.inbox import SqlInbox
from checkback.sql.transaction_log import SqlTransactionLog
from tests.django import MYSQL_DRIVER
from tests.place import wait_until
from tests.sql.databases import MARIADB, waits
from tests.sql.mariadb import installed
from tests.sql.points import Points
from tests.sql.shop import Shop, question, shop_of
from torture.local_mariadb import ON_MYSQL

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
ONE = ["mariadb-repeatable-read"]
LOCK_TIMEOUT, DEADLOCK = 1205, 1213

each_level = pytest.mark.parametrize("kind", MARIADB, indirect=True)
one_level = pytest.mark.parametrize("kind", ONE, indirect=True)
djangos_too = pytest.mark.parametrize("kind", [*ONE, "django-mariadb"], indirect=True)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        yield made


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def wait_one_second(connection: Connection | Session) -> None:
    connection.execute(text("SET SESSION innodb_lock_wait_timeout = 1"))


def code(error: BaseException | None) -> int:
    assert isinstance(error, DBAPIError)
    return int(getattr(error.orig, "args", (0,))[0])


@pytest.mark.parametrize("of", ["connection", "session"])
@each_level
def test_a_record_that_timed_out_and_was_forgiven_does_not_commit(shop: Shop, of: str) -> None:
    """InnoDB undoes the one statement, so the rest of the transaction could commit without it."""
    with shop.engine.connect() as other:
        shop.log.record(other, "tx")  # a first attempt that hangs
        work: Any = shop.engine.connect() if of == "connection" else Session(shop.engine)
        with work:
            wait_one_second(work)
            shop.order(work, "tx")
            with pytest.raises(OperationalError) as raised:
                shop.log.record(work, "tx")
            assert code(raised.value) == LOCK_TIMEOUT
            # SERIALIZABLE waits again, to look for the record
            with pytest.raises((RecordLostError, OperationalError), match=r"was not committed|Lock wait timeout"):
                work.commit()
        other.rollback()
    assert shop.check("tx") is ROLLBACK
    assert not shop.sold("tx")


def deadlock(work: Any, other: Connection, table: str, thread: ThreadPoolExecutor, engine: Engine) -> None:
    """``work`` loses, since it has written less."""
    change = f"UPDATE {table} SET id = CONCAT(id, '!') WHERE id = :id"  # noqa: S608  (ours)
    other.execute(text(f"INSERT INTO {table} VALUES ('1'), ('2'), ('3'), ('4')"))  # noqa: S608  (ours; weight)
    other.execute(text(change), {"id": "b"})
    work.execute(text(change), {"id": "a"})
    waiting = thread.submit(other.execute, text(change), {"id": "a"})
    wait_until(waits(engine, waiting), "the wait")
    with pytest.raises(OperationalError) as raised:
        work.execute(text(change), {"id": "b"})
    assert code(raised.value) == DEADLOCK
    assert is_lock_timeout(raised.value.orig)
    waiting.result(60)
    other.rollback()


@one_level
def test_a_transaction_that_lost_its_record_in_a_deadlock_does_not_commit(
    shop: Shop, thread: ThreadPoolExecutor
) -> None:
    """The database has begun another one without a word, and an order would be sold without its message."""
    with shop.engine.begin() as connection:
        connection.execute(text(f"INSERT INTO {shop.orders} VALUES ('a'), ('b')"))  # noqa: S608  (ours)
    with shop.engine.connect() as other, shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        deadlock(connection, other, shop.orders, thread, shop.engine)
        shop.order(connection, "tx")
        assert shop.check("tx") is ROLLBACK
        with pytest.raises(RecordLostError):
            connection.commit()
    assert not shop.sold("tx")
    assert shop.check("tx") is ROLLBACK


@one_level
def test_a_handler_that_forgives_a_deadlock_has_no_effect_without_memory(
    points: Points, thread: ThreadPoolExecutor
) -> None:
    with points.engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {points.table}_other (id VARCHAR(64) PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {points.table}_other VALUES ('a'), ('b')"))  # noqa: S608  (ours)

    @points.inbox.handler
    def give(session: Session, message: str) -> None:
        if deadlocks:
            with points.engine.connect() as other:
                deadlock(session, other, f"{points.table}_other", thread, points.engine)
        points.give(session, message)

    deadlocks = True
    with pytest.raises(RecordLostError):
        give("message")
    assert (points.given(), points.rows()) == ([], [])
    deadlocks = False
    assert [give("message"), give("message")] == [ConsumeResult.SUCCESS] * 2
    assert points.given() == ["message"]


@pytest.mark.parametrize("kind", [*MARIADB[:2], "django-mariadb"], indirect=True)
def test_a_record_that_is_younger_than_the_snapshot_is_found(shop: Shop) -> None:
    """Under REPEATABLE READ a plain look would find nothing, though the insert has just met it."""
    with shop.engine.connect() as connection:
        connection.execute(select(shop.table)).all()
        shop.sell_only("tx")
        with pytest.raises(DuplicateTransactionError):
            shop.log.record(connection, "tx")


@djangos_too
def test_several_checks_that_wait_for_one_transaction_never_say_more_than_they_know(shop: Shop) -> None:
    """When it rolls back they are let go at once, which InnoDB may take for a deadlock."""
    with ThreadPoolExecutor(4) as executor, shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        log = shop.log_with(20_000)
        checks = [executor.submit(log.check_local_transaction, question("tx")) for _ in range(4)]
        wait_until(waits(shop.engine, checks[0]), "the wait")
        connection.rollback()
        answers = [one.result(60) for one in checks]
    assert ROLLBACK in answers
    assert set(answers) <= {ROLLBACK, UNKNOWN}
    assert shop.check("tx") is ROLLBACK


ALIKE = ["a", "A", "a ", "ä", "ss", "ß", "a\t"]


@djangos_too
def test_names_that_a_collation_takes_for_the_same_are_not(shop: Shop) -> None:
    for one in ALIKE[::2]:
        shop.sell_only(one)
    assert [shop.check(one) for one in ALIKE] == [ROLLBACK if number % 2 else COMMIT for number in range(len(ALIKE))]
    assert sorted(shop.rows()) == sorted(
        (one, "blocked" if number % 2 else "committed") for number, one in enumerate(ALIKE)
    )


@djangos_too
def test_messages_whose_names_are_alike_have_an_effect_each(points: Points) -> None:
    with points.engine.begin() as connection, points.inbox.once_each(connection, [*ALIKE, *ALIKE]) as new:
        assert new == ALIKE
    with points.engine.begin() as connection, points.inbox_of("POINTS").once_each(connection, ALIKE) as new:
        assert new == ALIKE


@pytest.mark.parametrize("settings", ["SET SESSION sql_mode = ''", "SET NAMES latin1"])
@one_level
def test_nothing_is_cut_off_or_turned_into_something_else(shop: Shop, settings: str) -> None:
    """Not strict, a server keeps the first 64 bytes: another transaction's name."""
    engine = create_engine(shop.engine.url, connect_args={"init_command": settings})
    log = SqlTransactionLog(engine, table=shop.log_table)
    with engine.connect() as connection, pytest.raises(StatementError, match="has 65 bytes"):
        log.record(connection, "x" * 65)
    with engine.begin() as connection:
        log.record(connection, "ä")
    engine.dispose()
    assert shop.check("ä") is COMMIT


@pytest.mark.parametrize("flag", [0, 2])
@one_level
def test_whichever_rows_the_client_has_counted(points: Points, flag: int) -> None:
    """FOUND_ROWS, which SQLAlchemy sets, is 2."""
    engine = create_engine(points.engine.url, connect_args={"client_flag": flag})
    inbox = SqlInbox(engine, "points", table=points.inbox_table)
    for messages, expected in ((["a", "b"], ["a", "b"]), (["c", "b", "a"], ["c"]), (["a"], [])):
        with engine.begin() as connection, inbox.once_each(connection, messages) as new:
            assert new == expected
    engine.dispose()


@pytest.mark.parametrize("zone", ["+00:00", "-09:30"])
@one_level
def test_ages_are_utc_with_microseconds_in_whatever_zone_the_session_is(points: Points, zone: str) -> None:
    engine = create_engine(points.engine.url, connect_args={"init_command": f"SET SESSION time_zone = '{zone}'"})
    inbox = SqlInbox(engine, "points", table=points.inbox_table)
    before = datetime.now(UTC)
    with engine.begin() as connection, inbox.once(connection, "a"):
        pass
    with points.engine.connect() as connection:
        received = connection.scalar(select(points.inbox.table.c.received_at))
    assert received is not None
    assert before <= received <= datetime.now(UTC)
    assert inbox.prune(timedelta(minutes=1)) == 0
    assert points.inbox.prune(timedelta(microseconds=1)) == 1
    engine.dispose()


@pytest.mark.parametrize("engine_name", ["MyISAM", "Aria", "MEMORY"])
@one_level
def test_a_table_without_transactions_is_refused(shop: Shop, engine_name: str) -> None:
    if ON_MYSQL and engine_name == "Aria":
        pytest.skip("MySQL has no Aria.")
    with shop.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {shop.log_table} ENGINE = {engine_name}"))
    log = shop.log_with(100)
    expected = f"kept by {engine_name}, not by InnoDB.*ALTER TABLE"
    with shop.engine.connect() as connection, pytest.raises(ConfigurationError, match=expected):
        log.record(connection, "tx")
    for use in (log.create_table, lambda: log.check_local_transaction(question("tx"))):
        with pytest.raises(ConfigurationError, match=expected):
            use()
    assert shop.rows() == []


@one_level
def test_an_inbox_without_transactions_is_refused(points: Points) -> None:
    with points.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {points.inbox_table} ENGINE = MyISAM"))
    inbox = points.inbox_of("points")
    with pytest.raises(ConfigurationError, match="kept by MyISAM"):
        inbox.create()
    with points.engine.connect() as connection, pytest.raises(ConfigurationError, match="kept by MyISAM"):
        inbox.once(connection, "a").__enter__()
    assert points.rows() == []


@one_level
def test_a_table_whose_key_is_text_is_refused(shop: Shop) -> None:
    name = f"text_{uuid.uuid4().hex[:8]}"
    log = SqlTransactionLog(shop.engine, table=name)
    with shop.engine.begin() as connection:
        columns = "transaction_id VARCHAR(64) PRIMARY KEY, state VARCHAR(9), recorded_at DATETIME(6)"
        connection.execute(text(f"CREATE TABLE {name} ({columns})"))
    with pytest.raises(ConfigurationError, match="'A' and 'a'"):
        log.create_table()


@one_level
def test_a_transaction_that_the_application_begins_by_hand_is_one(shop: Shop) -> None:
    engine = create_engine(shop.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        shop.log.record(connection, "tx")
        assert shop.rows() == []
        connection.exec_driver_sql("ROLLBACK")
    engine.dispose()
    assert shop.check("tx") is ROLLBACK


@pytest.mark.parametrize("driver", ["mysql+pymysql", "mariadb+pymysql", "mysql+mysqldb"])
@one_level
def test_each_driver_records_and_is_refused_where_it_commits_by_itself(shop: Shop, driver: str) -> None:
    if ON_MYSQL and driver.startswith("mariadb"):
        pytest.skip("SQLAlchemy's mariadb is for MariaDB only.")
    if driver == "mysql+mysqldb" and MYSQL_DRIVER != "mysqldb":
        pytest.skip("mysqlclient is not installed.")
    engine = create_engine(shop.engine.url.set(drivername=driver))
    log = SqlTransactionLog(engine, table=shop.log_table)
    with engine.begin() as connection:
        log.record(connection, "tx")
    assert [log.check_local_transaction(question(one)) for one in ("tx", "none")] == [COMMIT, ROLLBACK]
    with pytest.raises(TransactionBlockedError), engine.begin() as connection:
        log.record(connection, "none")
    by_itself = engine.execution_options(isolation_level="AUTOCOMMIT")
    with by_itself.connect() as connection, pytest.raises(ConfigurationError, match="autocommit"):
        log.record(connection, "another")
    engine.dispose()


def test_a_server_that_is_killed_has_what_it_had_committed(tmp_path: Path, thread: ThreadPoolExecutor) -> None:
    with installed() as server:
        shop = Shop(create_engine(server.url))
        with shop.engine.connect() as connection:
            shop.log.record(connection, "running")
            shop.order(connection, "running")
            checking = thread.submit(shop.log_with(60_000).check_local_transaction, question("running"))
            wait_until(waits(shop.engine, checking), "the wait")
            server.kill()
            with pytest.raises(DBAPIError):
                checking.result(60)
            with pytest.raises(DBAPIError):
                connection.commit()
        server.start()
        shop.engine.dispose()
        assert (shop.check("running"), shop.sold("running")) == (ROLLBACK, False)
        for number in range(3):
            selling = thread.submit(sell_until_killed, shop, f"round-{number}")
            wait_until(partial(has_rows, shop, 20 * (number + 1)), "some that are sold")
            server.kill()
            asked = selling.result(60)
            server.start()
            shop.engine.dispose()
            for one in asked:
                assert shop.check(one) is (COMMIT if shop.sold(one) else ROLLBACK)
        shop.engine.dispose()


def has_rows(shop: Shop, number: int) -> bool:
    return len(shop.rows()) > number


def sell_until_killed(shop: Shop, name: str) -> list[str]:
    sold: list[str] = []
    with suppress(DBAPIError):
        while True:
            sold.append(f"{name}-{len(sold)}")
            shop.sell(sold[-1])
    return sold
