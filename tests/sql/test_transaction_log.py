"""The transaction log on real databases: SQLite in a file, PostgreSQL and MariaDB, at several isolation levels.

``SqlTransactionLog``; and as faces of the same shop, ``DbapiTransactionLog`` and ``DjangoTransactionLog``.
"""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from checkback import (
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
from tests.sql.databases import DJANGO, DJANGO_EACH, ERRORS, MARIADB, PLAIN, SERVERS, SNAPSHOTS, SQLITE, waits
from tests.sql.shop import Shop, question, shop_of

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN

PAGE = Path(__file__).parents[2] / "docs" / "transaction-log.md"

SERIALIZATION_FAILURE = "40001"
RACES = 60


# whatever it is made with
SQLITE, SERVERS = [*SQLITE, "sqlite3", "django-sqlite"], [*SERVERS, "psycopg", "pymysql", *DJANGO_EACH[1:]]
SNAPSHOTS = [*SNAPSHOTS, "django-postgresql-serializable"]
EACH_LEVEL = [*SQLITE, *SERVERS, SNAPSHOTS[-1]]

not_djangos = pytest.mark.parametrize("kind", [one for one in EACH_LEVEL if one not in DJANGO], indirect=True)
"""What Django has in another way: tests/django."""


@pytest.fixture(params=[*SQLITE, *SERVERS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        yield made


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


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


@pytest.mark.parametrize("kind", EACH_LEVEL, indirect=True)
@pytest.mark.parametrize(("end", "answer"), [("commit", COMMIT), ("rollback", ROLLBACK)])
def test_a_check_that_waits_gives_the_outcome(shop: Shop, end: str, answer: str, thread: ThreadPoolExecutor) -> None:
    with shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        checking = thread.submit(shop.log_with(60_000).check_local_transaction, question("tx"))
        wait_until(waits(shop.engine, checking), "the wait")
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
        return LocalTransactionState(log.check_local_transaction(question(transaction_id)))

    def sell(transaction_id: str, statements_before: int) -> bool:
        start.wait(30)
        try:
            shop.sell(transaction_id, statements_before)
        except (TransactionBlockedError, *ERRORS):
            return False
        return True

    for number in range(RACES):
        transaction_id = f"tx-{number}"
        checking = thread.submit(check, transaction_id)
        sold, answer = sell(transaction_id, number % before), checking.result(60)
        assert shop.sold(transaction_id) is sold
        assert answer in ({COMMIT, UNKNOWN} if sold else {ROLLBACK, UNKNOWN})
        assert shop.check(transaction_id) is (COMMIT if sold else ROLLBACK)


@pytest.mark.parametrize("kind", [*SERVERS, SNAPSHOTS[-1]], indirect=True)
def test_a_check_before_the_record_blocks_a_running_transaction(shop: Shop, kind: str) -> None:
    def sell() -> None:
        with shop.engine.begin() as connection:
            shop.order(connection, "tx")
            assert shop.check("tx") is ROLLBACK
            shop.log.record(connection, "tx")

    with pytest.raises((TransactionBlockedError, *ERRORS)) as raised:
        sell()
    if kind in SNAPSHOTS:  # the block is younger than the transaction's snapshot
        assert getattr(raised.value.__cause__, "sqlstate", None) == SERIALIZATION_FAILURE
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


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
def test_a_server_waits_for_the_transaction_asked_about_only(shop: Shop) -> None:
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


@not_djangos
def test_a_connection_in_autocommit_mode_is_refused_and_nothing_is_written(shop: Shop) -> None:
    engine = create_engine(shop.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(ConfigurationError, match="autocommit"):
        shop.log.record(connection, "tx")
    engine.dispose()
    assert shop.rows() == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_connection_with_another_schema_is_refused_and_nothing_is_written(shop: Shop) -> None:
    """Checks would find nothing, and say rollback of what is committed."""
    elsewhere = shop.engine.execution_options(schema_translate_map={None: "temp"})
    with elsewhere.connect() as connection, pytest.raises(ConfigurationError, match="schema_translate_map"):
        shop.log.record(connection, "tx")
    assert shop.rows() == []
    with shop.engine.execution_options(schema_translate_map={None: "main"}).begin() as connection:
        shop.log.record(connection, "tx")  # what it is without a map, too
    assert shop.check("tx") is COMMIT


@not_djangos
def test_an_engine_in_autocommit_mode_answers_checks(shop: Shop) -> None:
    engine = create_engine(shop.engine.url, isolation_level="AUTOCOMMIT")
    log = SqlTransactionLog(engine, table=shop.log_table, lock_timeout_ms=100)
    with shop.engine.begin() as connection:
        shop.log.record(connection, "tx")
        assert log.check_local_transaction(question("tx")) is UNKNOWN
    assert [log.check_local_transaction(question(one)) for one in ("tx", "none")] == [COMMIT, ROLLBACK]
    engine.dispose()


@not_djangos
def test_a_check_leaves_its_connection_as_it_was(shop: Shop, kind: str) -> None:
    engine = create_engine(shop.engine.url, pool_size=1, max_overflow=0)
    names = ["SHOW lock_timeout"]
    if kind in SQLITE:
        names = ["PRAGMA busy_timeout"]
    elif PLAIN.get(kind, kind) in MARIADB:
        names = ["SELECT @@SESSION.innodb_lock_wait_timeout", "SELECT @@SESSION.lock_wait_timeout"]

    def settings() -> list[Any]:
        with engine.connect() as connection:
            level = connection.get_isolation_level()
            return [level, *(connection.exec_driver_sql(name).scalar() for name in names)]

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
        connection.execute(shop.table.update().values(recorded_at=long_ago))
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


@not_djangos
def test_the_table_is_made_once_however_many_processes_do_it(shop: Shop) -> None:
    shop.log_table += " again"
    log = shop.log_with(1_000)
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


@not_djangos
def test_without_its_table_a_check_raises_and_an_endpoint_says_unknown(shop: Shop) -> None:
    shop.log_table = "nowhere"
    log = shop.log_with(1_000)
    with pytest.raises(Exception, match="nowhere"):
        log.check_local_transaction(question("tx"))
    with pytest.raises(Exception, match="nowhere"):
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
    another: Any = SimpleNamespace(dialect=SimpleNamespace(name="oracle"))
    with pytest.raises(ConfigurationError, match="not on oracle"):
        SqlTransactionLog(another)
    for engine in (create_engine("sqlite://"), create_engine("sqlite:///one.db", poolclass=StaticPool)):
        with pytest.raises(ConfigurationError, match="connections are one"):
            SqlTransactionLog(engine)
    with pytest.raises(ConfigurationError, match="lock_timeout_ms is 0"):
        SqlTransactionLog(create_engine("sqlite:///none.db"), lock_timeout_ms=0)
