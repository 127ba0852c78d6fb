"""The transaction log on real databases: SQLite in a file, and a PostgreSQL of its own, at several isolation levels."""

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from checkback import (
    CheckRequest,
    ConfigurationError,
    DuplicateTransactionError,
    HalfMessage,
    HalfPosition,
    LocalTransactionState,
    TransactionBlockedError,
    TransactionChecker,
    check_app,
)
from checkback.sql.transaction_log import SqlTransactionLog
from tests.answering.endpoint import request as http_request
from tests.place import wait_until
from tests.sql.databases import POSTGRESQL, SNAPSHOTS, SQLITE, engine_of

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN

PAGE = Path(__file__).parents[2] / "docs" / "transaction-log.md"

SERIALIZATION_FAILURE = "40001"
RACES = 60


class Shop:
    """An application with one table of its own beside the log."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        suffix = uuid.uuid4().hex[:8]
        self.log_table, self.orders = f"log_{suffix}", f"orders_{suffix}"
        self.log = self.log_with(100)
        self.log.create_table()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {self.orders} (id VARCHAR(64) PRIMARY KEY)"))

    def log_with(self, lock_timeout_ms: int) -> SqlTransactionLog:
        return SqlTransactionLog(self.engine, table=self.log_table, lock_timeout_ms=lock_timeout_ms)

    def order(self, connection: Connection | Session, transaction_id: str) -> None:
        connection.execute(text(f"INSERT INTO {self.orders} VALUES (:id)"), {"id": transaction_id})  # noqa: S608  (ours)

    def sell(self, transaction_id: str, statements_before: int = 0) -> None:
        with self.engine.begin() as connection:
            for _ in range(statements_before):
                connection.execute(text("SELECT 1"))
            self.log.record(connection, transaction_id)
            self.order(connection, transaction_id)

    def check(self, transaction_id: str) -> LocalTransactionState:
        return self.log.check_local_transaction(question(transaction_id))

    def sold(self, transaction_id: str) -> bool:
        query = text(f"SELECT 1 FROM {self.orders} WHERE id = :id")  # noqa: S608  (ours)
        with self.engine.connect() as connection:
            return connection.execute(query, {"id": transaction_id}).first() is not None

    def rows(self) -> list[tuple[str, str]]:
        query = text(f"SELECT transaction_id, state FROM {self.log_table} ORDER BY 1")  # noqa: S608  (ours)
        with self.engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(query)]


def question(transaction_id: str) -> CheckRequest:
    return CheckRequest(transaction_id, "orders", "paid", None, b"v", [], HalfPosition(1, 2), 1, 15, 1_000)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    engine = engine_of(kind, request, tmp_path)
    yield Shop(engine)
    engine.dispose()


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def waits(shop: Shop, checking: Future[Any]) -> Callable[[], bool]:
    """Whether the check waits for a lock; of SQLite one cannot see it, only that the check is not done."""
    if shop.engine.dialect.name == "sqlite":
        return checking.running

    def waiting() -> bool:
        with shop.engine.connect() as connection:
            found = connection.execute(text("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"))
            return found.first() is not None

    return waiting


def test_a_committed_transaction_is_answered_with_commit_as_often_as_asked(shop: Shop) -> None:
    shop.sell("tx")
    assert [shop.check("tx"), shop.check("tx")] == [COMMIT, COMMIT]
    assert shop.rows() == [("tx", "committed")]


def test_what_never_ran_is_blocked_and_a_late_record_fails(shop: Shop) -> None:
    assert [shop.check("tx"), shop.check("tx")] == [ROLLBACK, ROLLBACK]
    with pytest.raises(TransactionBlockedError, match="Transaction tx came too late"):
        shop.sell("tx")
    assert shop.check("tx") is ROLLBACK
    assert not shop.sold("tx")
    assert shop.rows() == [("tx", "blocked")]


def test_a_running_transaction_is_unknown_and_its_commit_is_found(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        shop.log.record(connection, "tx")
        shop.order(connection, "tx")
        assert shop.check("tx") is UNKNOWN
    assert shop.check("tx") is COMMIT
    assert shop.sold("tx")


def test_a_transaction_that_rolls_back_is_answered_with_rollback(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        shop.order(connection, "tx")
        assert shop.check("tx") is UNKNOWN
        connection.rollback()
    assert shop.check("tx") is ROLLBACK
    with pytest.raises(TransactionBlockedError):
        shop.sell("tx")
    assert not shop.sold("tx")


def test_a_transaction_that_dies_with_its_connection_is_answered_with_rollback(shop: Shop) -> None:
    connection = shop.engine.connect()
    shop.log.record(connection, "tx")
    connection.invalidate()
    connection.close()
    assert shop.log_with(5_000).check_local_transaction(question("tx")) is ROLLBACK


@pytest.mark.parametrize(("end", "answer"), [("commit", COMMIT), ("rollback", ROLLBACK)])
def test_a_check_that_waits_gives_the_outcome(shop: Shop, end: str, answer: str, thread: ThreadPoolExecutor) -> None:
    with shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        checking = thread.submit(shop.log_with(60_000).check_local_transaction, question("tx"))
        wait_until(waits(shop, checking), "the wait")
        assert not checking.done()
        getattr(connection, end)()
    assert checking.result(60) == answer


def test_record_and_check_racing_never_contradict_each_other(shop: Shop, kind: str, thread: ThreadPoolExecutor) -> None:
    # round trips before the record, so that each side wins some races: a check on PostgreSQL has more of them
    before = 1 if kind in SQLITE else 20
    start = threading.Barrier(2)
    log = shop.log_with(2_000)

    def check(transaction_id: str) -> LocalTransactionState:
        start.wait(30)
        return log.check_local_transaction(question(transaction_id))

    def sell(transaction_id: str, statements_before: int) -> bool:
        start.wait(30)
        try:
            shop.sell(transaction_id, statements_before)
        except (TransactionBlockedError, DBAPIError):
            return False
        return True

    for number in range(RACES):
        transaction_id = f"tx-{number}"
        checking = thread.submit(check, transaction_id)
        sold, answer = sell(transaction_id, number % before), checking.result(60)
        assert shop.sold(transaction_id) is sold
        assert answer in ({COMMIT, UNKNOWN} if sold else {ROLLBACK, UNKNOWN})
        assert shop.check(transaction_id) is (COMMIT if sold else ROLLBACK)


@pytest.mark.parametrize("kind", POSTGRESQL, indirect=True)
def test_a_check_before_the_record_blocks_a_running_transaction(shop: Shop, kind: str) -> None:
    def sell() -> None:
        with shop.engine.begin() as connection:
            shop.order(connection, "tx")
            assert shop.check("tx") is ROLLBACK
            shop.log.record(connection, "tx")

    with pytest.raises((TransactionBlockedError, DBAPIError)) as raised:
        sell()
    if kind in SNAPSHOTS:  # the block is younger than the transaction's snapshot
        assert raised.value.orig.sqlstate == SERIALIZATION_FAILURE  # type: ignore[attr-defined]  # SQLAlchemy's
    else:
        assert raised.type is TransactionBlockedError
    assert not shop.sold("tx")
    with pytest.raises(TransactionBlockedError):
        shop.sell("tx")


@pytest.mark.parametrize("kind", SQLITE, indirect=True)
def test_sqlite_is_unknown_while_anybody_writes_but_what_has_ended_is_found(shop: Shop) -> None:
    shop.sell("committed")
    assert shop.check("blocked") is ROLLBACK
    with shop.engine.begin() as connection:
        shop.order(connection, "another")
        assert [shop.check("committed"), shop.check("blocked"), shop.check("tx")] == [COMMIT, ROLLBACK, UNKNOWN]
    assert shop.check("tx") is ROLLBACK


@pytest.mark.parametrize("kind", POSTGRESQL, indirect=True)
def test_postgresql_waits_for_the_transaction_asked_about_only(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        shop.log.record(connection, "another")
        assert shop.check("tx") is ROLLBACK


def test_a_session_records_too(shop: Shop) -> None:
    with Session(shop.engine) as session, session.begin():
        shop.log.record(session, "tx")
        shop.order(session, "tx")
        assert shop.check("tx") is UNKNOWN
    assert shop.check("tx") is COMMIT


def test_a_record_that_is_there_already_is_refused(shop: Shop) -> None:
    shop.sell("tx")
    with pytest.raises(DuplicateTransactionError, match="Transaction tx is recorded already"):
        shop.sell("tx")
    with shop.engine.connect() as connection:
        shop.log.record(connection, "twice")
        with pytest.raises(DuplicateTransactionError):
            shop.log.record(connection, "twice")
    assert shop.check("tx") is COMMIT


def test_a_connection_in_autocommit_mode_is_refused_and_nothing_is_written(shop: Shop) -> None:
    engine = create_engine(shop.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="autocommit"):
        shop.log.record(connection, "tx")
    engine.dispose()
    assert shop.rows() == []


def test_an_engine_in_autocommit_mode_answers_checks(shop: Shop) -> None:
    engine = create_engine(shop.engine.url, isolation_level="AUTOCOMMIT")
    log = SqlTransactionLog(engine, table=shop.log_table, lock_timeout_ms=100)
    with shop.engine.begin() as connection:
        shop.log.record(connection, "tx")
        assert log.check_local_transaction(question("tx")) is UNKNOWN
    assert [log.check_local_transaction(question(one)) for one in ("tx", "none")] == [COMMIT, ROLLBACK]
    engine.dispose()


def test_a_check_leaves_its_connection_as_it_was(shop: Shop, kind: str) -> None:
    engine = create_engine(shop.engine.url, pool_size=1, max_overflow=0)
    names = ["PRAGMA busy_timeout"] if kind in SQLITE else ["SHOW lock_timeout", "SHOW transaction_isolation"]

    def settings() -> list[Any]:
        with engine.connect() as connection:
            return [connection.exec_driver_sql(name).scalar() for name in names]

    before = settings()
    log = SqlTransactionLog(engine, table=shop.log_table, lock_timeout_ms=77)
    with shop.engine.begin() as connection:
        shop.log.record(connection, "tx")
        assert log.check_local_transaction(question("tx")) is UNKNOWN
    assert log.check_local_transaction(question("none")) is ROLLBACK
    assert settings() == before
    engine.dispose()


def test_prune_deletes_rows_of_that_age_and_no_others(shop: Shop) -> None:
    shop.sell("old")
    assert shop.check("old-blocked") is ROLLBACK
    long_ago = datetime.now(UTC) - timedelta(days=31)
    with shop.engine.begin() as connection:
        connection.execute(shop.log._table.update().values(recorded_at=long_ago))
    shop.sell("new")
    assert shop.log.prune(timedelta(days=32)) == 0
    assert shop.log.prune(timedelta(days=30)) == 2
    assert shop.log.prune(timedelta(days=30)) == 0
    assert shop.rows() == [("new", "committed")]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("days", [0, -1])
def test_prune_wants_an_age(shop: Shop, days: int) -> None:
    with pytest.raises(ConfigurationError, match="older_than"):
        shop.log.prune(timedelta(days=days))


def test_the_table_is_made_once_however_many_processes_do_it(shop: Shop) -> None:
    log = SqlTransactionLog(shop.engine, table=f"{shop.log_table} again")
    with ThreadPoolExecutor(4) as executor:
        for made in [executor.submit(log.create_table) for _ in range(8)]:
            made.result(60)
    assert log.check_local_transaction(question("tx")) is ROLLBACK


def test_an_endpoint_answers_with_the_log(shop: Shop) -> None:
    assert isinstance(shop.log, TransactionChecker)
    shop.sell("tx")
    app = check_app(shop.log, "orders")
    answers = [http_request(app, question(one).to_json()).json() for one in ("tx", "none")]
    assert answers == [{"state": "commit", "remark": ""}, {"state": "rollback", "remark": ""}]


def test_without_its_table_a_check_raises_and_an_endpoint_says_unknown(shop: Shop) -> None:
    log = SqlTransactionLog(shop.engine, table="nowhere")
    with pytest.raises(DBAPIError):
        log.check_local_transaction(question("tx"))
    with pytest.raises(DBAPIError):
        log.prune(timedelta(days=30))
    assert http_request(check_app(log, "orders"), question("tx").to_json()).json()["state"] == "unknown"


def test_the_pages_example_records_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(.*?)^try:", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(found[1], PAGE.name, "exec"), names)  # noqa: S102  (that is the test)
    half = HalfMessage("tx", "orders", b"order", None, (), HalfPosition(1, 2))
    assert names["listener"].execute_local_transaction(half, None) is COMMIT
    assert [names["log"].check_local_transaction(question(one)) for one in ("tx", "none")] == [COMMIT, ROLLBACK]
    names["engine"].dispose()


def test_what_it_cannot_work_with_is_refused() -> None:
    another: Any = SimpleNamespace(dialect=SimpleNamespace(name="mysql"))
    with pytest.raises(ConfigurationError, match="not on mysql"):
        SqlTransactionLog(another)
    for engine in (create_engine("sqlite://"), create_engine("sqlite:///one.db", poolclass=StaticPool)):
        with pytest.raises(ConfigurationError, match="connections are one"):
            SqlTransactionLog(engine)
    with pytest.raises(ConfigurationError, match="lock_timeout_ms is 0"):
        SqlTransactionLog(create_engine("sqlite:///none.db"), lock_timeout_ms=0)
