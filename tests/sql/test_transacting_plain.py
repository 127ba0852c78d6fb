"""``producer.transaction(message, database=log.of())`` on plain connections: psycopg, PyMySQL, sqlite3."""

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg.rows import class_row, dict_row

from checkback import (
    CheckbackError,
    ConfigurationError,
    LocalTransactionState,
    Message,
    RecordLostError,
    Rollback,
    TransactionProducer,
)
from checkback.dbapi import DbapiTransactionLog
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.checkback.test_exports import brought_along
from tests.sql.databases import PLAIN
from tests.sql.shop import PlainFace, Shop, question, shop_of

pymysql: Any = import_module("pymysql")  # it ships no types
ORDER = Message("points", b"1")
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
DRIVERS_ERRORS = (sqlite3.Error, psycopg.Error, pymysql.Error)


@pytest.fixture(params=PLAIN)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        yield made


@pytest.fixture
def log(shop: Shop) -> DbapiTransactionLog[Any]:
    face: PlainFace = shop.log
    return face.log


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def producer(recording: RecordingTransport) -> Iterator[TransactionProducer]:
    with TransactionProducer("", "orders", transport=recording) as made:
        yield made


@pytest.fixture(params=["opened", "given", "autocommit", "rows by name"])
def database(request: pytest.FixtureRequest, kind: str, log: DbapiTransactionLog[Any]) -> Iterator[Any]:
    if request.param == "opened":
        yield log.of()
        return
    connection = log.connect()
    if request.param == "autocommit":
        if kind == "pymysql":
            connection.autocommit(True)  # noqa: FBT003  (PyMySQL's)
        elif kind == "psycopg":
            connection.autocommit = True
        else:
            connection.isolation_level = None
    elif request.param == "rows by name":
        if kind == "pymysql":
            connection.cursorclass = pymysql.cursors.DictCursor
        else:
            connection.row_factory = dict_row if kind == "psycopg" else sqlite3.Row
    yield log.of(connection)
    connection.close()


def order(shop: Shop, connection: Any, name: str) -> None:
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO {shop.orders} VALUES ('{name}')")  # noqa: S608  (ours)
    cursor.close()


def test_blocks_commit_both_or_roll_both_back(
    shop: Shop, kind: str, log: DbapiTransactionLog[Any], database: Any, producer: TransactionProducer, recording: Any
) -> None:
    with producer.transaction(ORDER, database=database) as transaction:
        order(shop, transaction.connection, "a")
        assert recording.transactions[0].action is None
        assert shop.rows() == []
    assert log.check_local_transaction(question(transaction.transaction_id)) is COMMIT
    with producer.transaction([ORDER, ORDER], database=database) as transaction:
        order(shop, transaction.connection, "b")
        raise Rollback("sold out")
    with pytest.raises(LookupError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        order(shop, transaction.connection, "c")
        raise LookupError
    with pytest.raises(DRIVERS_ERRORS), producer.transaction(ORDER, database=database) as transaction:
        order(shop, transaction.connection, "a")
    with pytest.raises(RecordLostError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        order(shop, transaction.connection, "d")
        transaction.connection.rollback()
    # whoever does not see the record before the rollback leaves it to the check: PostgreSQL after an error
    after_error = Action.UNKNOWN if kind == "psycopg" else Action.ROLLBACK
    expected = [Action.COMMIT, Action.ROLLBACK, Action.ROLLBACK, after_error, Action.UNKNOWN]
    assert [one.action for one in recording.transactions] == expected
    assert [shop.sold(one) for one in "abcd"] == [True, False, False, False]
    assert [row[1] for row in shop.rows()] == ["committed"]


def _refuse_rows(*_: object) -> Any:
    raise TypeError("these rows are for the application's own queries")


def test_the_cursors_and_rows_of_a_connection_may_be_of_any_kind(
    kind: str, log: DbapiTransactionLog[Any], producer: TransactionProducer
) -> None:
    def connect() -> Any:
        connection = log.connect()
        if kind == "psycopg":
            connection.cursor_factory = psycopg.RawCursor
            connection.row_factory = class_row(cast("type[Any]", _refuse_rows))
        elif kind == "pymysql":
            connection.cursorclass = pymysql.cursors.SSDictCursor
        else:
            connection.row_factory = _refuse_rows
        return connection

    other = DbapiTransactionLog[Any](connect, table=log._table)
    other.create_table()
    with producer.transaction(ORDER, database=other.of()) as transaction:
        pass
    assert other.check_local_transaction(question(transaction.transaction_id)) is COMMIT
    assert other.check_local_transaction(question("another")) is ROLLBACK
    assert other.prune(timedelta(microseconds=1)) == 2


def test_a_commit_in_the_block_is_never_told_as_a_rollback(
    log: DbapiTransactionLog[Any], database: Any, producer: TransactionProducer, recording: Any
) -> None:
    with pytest.raises(LookupError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        transaction.connection.commit()
        raise LookupError
    assert recording.transactions[0].action is Action.UNKNOWN
    assert log.check_local_transaction(question(transaction.transaction_id)) is COMMIT


@pytest.mark.parametrize("kind", ["psycopg"], indirect=True)
def test_an_error_that_is_swallowed_is_no_commit(
    shop: Shop, database: Any, producer: TransactionProducer, recording: Any
) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, and no driver raises."""
    with pytest.raises(psycopg.Error, match="aborted"), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        order(shop, transaction.connection, "a")
        with pytest.raises(psycopg.Error):
            transaction.connection.execute("SELECT no_such_column")
    assert recording.transactions[0].action is Action.UNKNOWN
    assert not shop.sold("a")


def test_a_connection_that_is_lost_at_commit_leaves_it_to_the_check(
    log: DbapiTransactionLog[Any], producer: TransactionProducer, recording: Any
) -> None:
    class Lost(Exception):  # noqa: N818  (for the driver's)
        pass

    class Losing:
        """Commits, and the answer never comes."""

        def __init__(self) -> None:
            self.connection = log.connect()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

        def commit(self) -> None:
            self.connection.commit()
            raise Lost

    Losing.__module__ = type(log.connect()).__module__
    losing: Any = Losing()
    with pytest.raises(Lost), producer.transaction(ORDER, database=log.of(losing)) as transaction:
        pass
    assert recording.transactions[0].action is Action.UNKNOWN
    assert log.check_local_transaction(question(transaction.transaction_id)) is COMMIT
    losing.close()


def test_a_connection_that_is_in_a_transaction_is_refused_before_anything_is_written(
    shop: Shop, log: DbapiTransactionLog[Any], producer: TransactionProducer, recording: Any
) -> None:
    connection = log.connect()
    database = log.of(connection)
    order(shop, connection, "a")
    with (
        pytest.raises(ConfigurationError, match=r"already.*Call commit\(\) or rollback\(\) before"),
        producer.transaction(ORDER, database=database),
    ):
        pass
    assert recording.transactions == []
    connection.rollback()
    with producer.transaction(ORDER, database=database):
        pass
    connection.close()
    assert recording.committed == [ORDER]
    with pytest.raises(CheckbackError, match="not begun"):
        _ = producer.transaction(ORDER, database=log.of()).connection


def test_what_it_cannot_work_with_is_refused() -> None:
    class Another:
        def cursor(self) -> Any: ...
        def commit(self) -> None: ...
        def rollback(self) -> None: ...
        def close(self) -> None: ...

    log = DbapiTransactionLog(Another)
    with pytest.raises(ConfigurationError, match=r"psycopg, sqlite3, pymysql, not on .*Another"):
        log.create_table()
    with pytest.raises(ConfigurationError, match="lock_timeout_ms is 0"):
        DbapiTransactionLog(Another, lock_timeout_ms=0)
    with pytest.raises(ValueError, match="has 65 bytes"):
        DbapiTransactionLog(lambda: sqlite3.connect(":memory:")).check_local_transaction(question("x" * 65))


def test_it_imports_no_sqlalchemy() -> None:
    assert brought_along("checkback.dbapi", ["sqlalchemy", "django", "psycopg", "pymysql"]) == ""
