"""No database commits a transaction that has lost what was recorded in it, whatever the application has handled."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from checkback import (
    DuplicateTransactionError,
    HalfMessage,
    HalfPosition,
    LocalTransactionState,
    RecordLostError,
    TransactionBlockedError,
    TransactionScope,
)
from checkback.sql.transaction_log import SqlTransactionLog
from tests.sql.databases import POSTGRESQL, SERVERS, SQLITE
from tests.sql.points import SUCCESS, Points
from tests.sql.shop import Shop, shop_of

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        yield made


def fail(work: Connection | Session) -> None:
    """A statement that fails, and an application that goes on all the same."""
    with suppress(DBAPIError):
        work.execute(text("SELECT * FROM nowhere"))


class Told:
    """What a producer would tell the job at the end of its block."""

    def __init__(self) -> None:
        self.said: list[BaseException | None] = []

    def scope(self, transaction_id: str) -> TransactionScope:
        half = HalfMessage(transaction_id, "orders", b"order", None, (), HalfPosition(1, 2))
        return TransactionScope(lambda: half, self._end)

    def _end(self, _: HalfMessage, error: BaseException | None) -> None:
        self.said.append(error)


@pytest.mark.parametrize("of", ["connection", "session"])
def test_a_producer_says_commit_only_of_what_the_database_has_committed(shop: Shop, kind: str, of: str) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK after a statement that failed, which no driver calls an error."""
    told = Told()

    def sell() -> None:
        work: Any = shop.engine.connect() if of == "connection" else Session(shop.engine)
        with told.scope("tx") as scope, work, work.begin():
            shop.log.record(work, scope.transaction_id)
            shop.order(work, "tx")
            fail(work)

    if kind in POSTGRESQL:
        with pytest.raises(RecordLostError):
            sell()
        assert isinstance(told.said[0], RecordLostError)
    else:
        sell()
        assert told.said == [None]
    assert (shop.sold("tx"), shop.check("tx")) == ((False, ROLLBACK) if kind in POSTGRESQL else (True, COMMIT))


def test_what_made_a_commit_fail_is_not_hidden_by_a_rollback_that_fails_too(shop: Shop) -> None:
    def fails(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.close()
        raise OSError("the network")

    with pytest.raises(OSError, match="the network"), shop.engine.begin() as opened:  # noqa: PT012  (the commit is what raises)
        shop.log.record(opened, "tx")
        event.listen(opened, "commit", fails)
    assert shop.rows() == []


def test_a_savepoint_that_is_rolled_back_alone_takes_the_commit_with_it(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        savepoint = connection.begin_nested()
        shop.log.record(connection, "tx")
        savepoint.rollback()
        shop.order(connection, "tx")
        with pytest.raises(RecordLostError):
            connection.commit()
    assert shop.check("tx") is ROLLBACK
    assert not shop.sold("tx")


def test_a_savepoint_inside_one_that_is_rolled_back_does_so_too(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        savepoint = connection.begin_nested()
        with connection.begin_nested():
            shop.log.record(connection, "tx")
        savepoint.rollback()
        with pytest.raises(RecordLostError):
            connection.commit()
    assert shop.check("tx") is ROLLBACK


def test_savepoints_that_end_well_or_have_caught_an_error_are_nobodys_business(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        with connection.begin_nested():
            shop.log.record(connection, "inside")
        savepoint = connection.begin_nested()
        fail(connection)
        savepoint.rollback()
    with shop.engine.begin() as connection:
        shop.log.record(connection, "before")
        savepoint = connection.begin_nested()
        shop.order(connection, "before")
        fail(connection)
        savepoint.rollback()
    assert [shop.check(one) for one in ("inside", "before")] == [COMMIT, COMMIT]
    assert not shop.sold("before")


@pytest.mark.parametrize("kind", SERVERS, indirect=True)
def test_a_block_that_was_forgiven_does_not_commit(shop: Shop) -> None:
    assert shop.check("tx") is ROLLBACK

    def sell() -> None:
        with shop.engine.begin() as connection:
            shop.order(connection, "tx")
            with pytest.raises(TransactionBlockedError):
                shop.log.record(connection, "tx")

    with pytest.raises(RecordLostError):
        sell()
    assert not shop.sold("tx")


def test_a_transaction_that_is_recorded_twice_inside_itself_commits(shop: Shop) -> None:
    with shop.engine.begin() as connection:
        shop.log.record(connection, "tx")
        with pytest.raises(DuplicateTransactionError):
            shop.log.record(connection, "tx")
    assert shop.check("tx") is COMMIT


def test_the_next_transactions_of_a_connection_are_their_own(shop: Shop) -> None:
    with shop.engine.connect() as connection:
        shop.log.record(connection, "rolled back")
        connection.rollback()
        shop.order(connection, "another")
        connection.commit()
        for one in ("tx-1", "tx-2"):
            shop.log.record(connection, one)
            connection.commit()
    assert [shop.check(one) for one in ("rolled back", "tx-1", "tx-2")] == [ROLLBACK, COMMIT, COMMIT]


@pytest.mark.parametrize("kind", SQLITE[:1], indirect=True)
def test_sqlite_may_roll_back_all_at_an_error(shop: Shop) -> None:
    """Where BEGIN is sent by an event, each statement after that is committed by itself, before we are asked."""
    with shop.engine.begin() as connection:
        raising = "BEGIN SELECT RAISE(ROLLBACK, 'no'); END"
        connection.execute(text(f"CREATE TRIGGER no BEFORE INSERT ON {shop.orders} WHEN NEW.id = 'bad' {raising}"))

    def sell() -> None:
        with shop.engine.begin() as connection:
            shop.log.record(connection, "tx")
            with pytest.raises(DBAPIError):
                shop.order(connection, "bad")
            shop.order(connection, "tx")

    with pytest.raises(RecordLostError):
        sell()
    assert (shop.sold("tx"), shop.check("tx")) == (False, ROLLBACK)


def statements_of_commit(engine: Engine, connection: Connection) -> list[str]:
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    connection.commit()
    event.remove(engine, "before_cursor_execute", note)
    return said


def test_what_a_commit_asks(shop: Shop, kind: str) -> None:
    """Psycopg has heard from the server what state the transaction is in."""
    with shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        said = statements_of_commit(shop.engine, connection)
        assert len(said) == (0 if kind in POSTGRESQL else 1)
        with connection.begin_nested():
            shop.log.record(connection, "in a savepoint")
        assert len(statements_of_commit(shop.engine, connection)) == 1
        shop.order(connection, "without a record")
        assert statements_of_commit(shop.engine, connection) == []


def test_a_handler_that_forgives_an_error_is_not_done_with_its_message(points: Points, kind: str) -> None:
    """It would be acknowledged, and never come again."""
    fails = True

    @points.inbox.handler
    def give(session: Session, message: str) -> None:
        points.give(session, message)
        if fails:
            fail(session)

    if kind in POSTGRESQL:
        with pytest.raises(RecordLostError):
            give("a")
        assert (points.given(), points.rows()) == ([], [])
    fails = kind not in POSTGRESQL
    assert [give("a"), give("a")] == [SUCCESS, SUCCESS]
    assert points.given() == ["a"]


def test_a_message_whose_savepoint_is_rolled_back_alone_takes_the_commit_with_it(points: Points) -> None:
    with points.engine.connect() as connection:
        savepoint = connection.begin_nested()
        with points.inbox.once(connection, "a") as first:
            assert first
        savepoint.rollback()
        points.give(connection, "a")
        with pytest.raises(RecordLostError):
            connection.commit()
    assert (points.given(), points.rows()) == ([], [])


def test_a_handlers_savepoint_that_has_caught_an_error_is_its_own_affair(points: Points) -> None:
    @points.inbox.handler
    def give(session: Session, message: str) -> None:
        savepoint = session.begin_nested()
        fail(session)
        savepoint.rollback()
        points.give(session, message)

    assert [give("a"), give("a")] == [SUCCESS, SUCCESS]
    assert points.given() == ["a"]


def test_a_second_log_of_the_same_transaction_is_looked_after_too(shop: Shop) -> None:
    other = SqlTransactionLog(shop.engine, table=f"{shop.log_table}_other")
    other.create_table()
    with shop.engine.connect() as connection:
        shop.log.record(connection, "tx")
        savepoint = connection.begin_nested()
        other.record(connection, "tx")
        savepoint.rollback()
        with pytest.raises(RecordLostError):
            connection.commit()
    assert shop.check("tx") is ROLLBACK
