# ruff: noqa: PT012  (what is inside the block is the test)
"""An error that the application handles inside, after which the database has committed nothing: found by an attack."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError, PendingRollbackError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from checkback import (
    CheckbackError,
    ConfigurationError,
    LocalTransactionState,
    Message,
    RecordLostError,
    TransactionProducer,
)
from checkback.sql.inbox import SqlInbox
from checkback.sql.transaction_log import SqlTransactionLog
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.sql.shop import Shop, shop_of

EACH = ["sqlite", "postgresql-read-committed", "mariadb-repeatable-read"]
ORDER = Message("points", b"1")


class Base(DeclarativeBase):
    pass


class Parcel(Base):
    __tablename__ = "parcels_of_handled_errors"

    id: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture(params=EACH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        with made.engine.begin() as connection:
            connection.execute(text("CREATE TABLE parcels_of_handled_errors (id VARCHAR(20) PRIMARY KEY)"))
            connection.execute(text("INSERT INTO parcels_of_handled_errors VALUES ('there')"))
        yield made
        with made.engine.begin() as connection:
            connection.execute(text("DROP TABLE parcels_of_handled_errors"))


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def producer(recording: RecordingTransport) -> Iterator[TransactionProducer]:
    with TransactionProducer("", "orders", transport=recording) as made:
        yield made


def parcels(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.scalars(text("SELECT id FROM parcels_of_handled_errors")))


def flush_twice(session: Session) -> None:
    """Something new, and something that is there; the error is handled."""
    session.add_all([Parcel(id="new"), Parcel(id="there")])
    with pytest.raises(IntegrityError):
        session.flush()


def nothing_said_commit(shop: Shop, recording: RecordingTransport) -> None:
    (only,) = recording.transactions
    assert only.action is not Action.COMMIT
    assert parcels(shop.engine) == ["there"]
    assert shop.check(only.transaction_id) is LocalTransactionState.ROLLBACK


def test_of_a_flush_in_a_block(shop: Shop, producer: TransactionProducer, recording: RecordingTransport) -> None:
    database = shop.log.of(sessionmaker(shop.engine))
    with pytest.raises(RecordLostError), producer.transaction(ORDER, database=database) as transaction:
        flush_twice(transaction.session)
    nothing_said_commit(shop, recording)


def test_of_a_flush_in_a_session_by_hand(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with (
        pytest.raises(PendingRollbackError),
        producer.transaction(ORDER) as transaction,
        Session(shop.engine) as session,
        session.begin(),
    ):
        shop.log.record(session, transaction.transaction_id)
        flush_twice(session)
    nothing_said_commit(shop, recording)


@pytest.mark.parametrize("savepoint", [False, True])
def test_a_session_by_hand_commits_as_before(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport, *, savepoint: bool
) -> None:
    with producer.transaction(ORDER) as transaction, Session(shop.engine) as session, session.begin():
        shop.log.record(session, transaction.transaction_id)
        if savepoint:
            with session.begin_nested():
                session.add(Parcel(id="nested"))
        session.add(Parcel(id="new"))
        session.commit()  # the end of the block has nothing left to do
    assert recording.committed == [ORDER]
    assert "new" in parcels(shop.engine)


def test_after_a_rollback_a_session_does_no_more_in_the_block(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    """Who handles an error so, and tries again, would commit an order that nobody is told of."""
    database = shop.log.of(sessionmaker(shop.engine))
    with (
        pytest.raises(InvalidRequestError, match="inside context manager"),
        producer.transaction(ORDER, database=database) as transaction,
    ):
        transaction.session.add(Parcel(id="new"))
        transaction.session.rollback()
        transaction.session.add(Parcel(id="newer"))
        transaction.session.commit()
    nothing_said_commit(shop, recording)


def test_nor_one_by_hand(shop: Shop, producer: TransactionProducer, recording: RecordingTransport) -> None:
    with (
        pytest.raises(InvalidRequestError, match="inside context manager"),
        producer.transaction(ORDER) as transaction,
        Session(shop.engine) as session,
        session.begin(),
    ):
        shop.log.record(session, transaction.transaction_id)
        session.rollback()
        session.execute(text("INSERT INTO parcels_of_handled_errors VALUES ('newer')"))
    nothing_said_commit(shop, recording)


@pytest.mark.parametrize("as_session", [False, True])
def test_a_database_transaction_around_the_block_is_found_where_it_records_by_hand(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport, *, as_session: bool
) -> None:
    """Its message would be committed first; here its COMMIT never comes."""
    opened = sessionmaker(shop.engine).begin() if as_session else shop.engine.begin()
    with (
        pytest.raises(ConfigurationError, match="has not been committed"),
        opened as outside,
        producer.transaction(ORDER) as transaction,
    ):
        shop.log.record(outside, transaction.transaction_id)
    nothing_said_commit(shop, recording)


def test_nor_is_a_commit_forgotten(shop: Shop, producer: TransactionProducer, recording: RecordingTransport) -> None:
    with (
        pytest.raises(ConfigurationError, match="has not been committed"),
        producer.transaction(ORDER) as transaction,
        shop.engine.connect() as connection,
    ):
        shop.log.record(connection, transaction.transaction_id)
        connection.execute(text("INSERT INTO parcels_of_handled_errors VALUES ('new')"))
    nothing_said_commit(shop, recording)


def test_nor_is_a_connections_rollback_passed_over(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with (
        pytest.raises(ConfigurationError, match="has not been committed"),
        producer.transaction(ORDER) as transaction,
        shop.engine.begin() as connection,
    ):
        shop.log.record(connection, transaction.transaction_id)
        connection.rollback()
    nothing_said_commit(shop, recording)


def fails(_connection: Connection) -> None:
    raise OSError("the network")


@pytest.mark.parametrize("as_session", [False, True])
def test_a_commit_that_fails_is_none_though_it_is_handled(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport, *, as_session: bool
) -> None:
    """SQLAlchemy tells of a commit before it sends COMMIT."""
    begin = sessionmaker(shop.engine).begin if as_session else shop.engine.begin
    with (
        pytest.raises(ConfigurationError, match="has not been committed"),
        producer.transaction(ORDER) as transaction,
        pytest.raises(OSError, match="the network"),
        begin() as opened,
    ):
        shop.log.record(opened, transaction.transaction_id)
        event.listen(opened if isinstance(opened, Connection) else opened.connection(), "commit", fails)
    nothing_said_commit(shop, recording)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql-read-committed"], indirect=True)
def test_nor_is_one_that_the_database_refuses(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with shop.engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS later_refused"))
        parent = "REFERENCES parcels_of_handled_errors DEFERRABLE INITIALLY DEFERRED"
        connection.execute(text(f"CREATE TABLE later_refused (id VARCHAR(20) {parent})"))
    try:
        with (
            pytest.raises(ConfigurationError, match="not been committed"),
            producer.transaction(ORDER) as transaction,
            pytest.raises(IntegrityError),
            shop.engine.connect() as connection,
        ):
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            shop.log.record(connection, transaction.transaction_id)
            connection.execute(text("INSERT INTO later_refused VALUES ('nobody')"))
            connection.commit()
    finally:
        with shop.engine.begin() as connection:
            connection.execute(text("DROP TABLE later_refused"))
    nothing_said_commit(shop, recording)


def test_another_try_in_the_block_counts(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with producer.transaction(ORDER) as transaction:
        for number in range(2):
            with suppress(LookupError), shop.engine.begin() as connection:
                shop.log.record(connection, transaction.transaction_id)
                if not number:
                    raise LookupError
    assert recording.committed == [ORDER]


@pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)
def test_what_is_recorded_in_two_logs_is_committed_in_both(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    other = SqlTransactionLog(shop.engine, table="another_log_of_handled_errors")
    other.create_table()
    with pytest.raises(ConfigurationError, match="not been committed"), producer.transaction(ORDER) as transaction:
        with suppress(LookupError), shop.engine.begin() as connection:
            other.record(connection, transaction.transaction_id)
            raise LookupError
        with shop.engine.begin() as connection:
            shop.log.record(connection, transaction.transaction_id)
    assert recording.committed == []


@pytest.mark.parametrize("as_session", [False, True])
def test_a_rollback_in_the_inboxs_block_is_found(shop: Shop, *, as_session: bool) -> None:
    """What is done after it would have its effect each time that the message comes; without it, never."""
    inbox = SqlInbox(shop.engine, "points", table="inbox_of_handled_errors")
    inbox.create()
    open_one: Any = sessionmaker(shop.engine) if as_session else shop.engine.connect
    for _ in "12":
        with open_one() as opened:
            with pytest.raises(RecordLostError, match="comes again"), inbox.once(opened, "tx-1") as first:
                assert first
                opened.rollback()
                opened.execute(text("INSERT INTO parcels_of_handled_errors VALUES ('instead')"))
            opened.commit()
    assert parcels(shop.engine) == ["there"]
    with open_one() as opened, inbox.once(opened, "tx-1") as first:
        assert first
        opened.commit()
    inbox.table.drop(shop.engine)


@pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)
def test_an_applications_tests_may_roll_all_of_it_back(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    """SQLAlchemy's recipe: each session of a test is in savepoints of one transaction."""
    with shop.engine.connect() as outside, outside.begin() as all_of_it:
        with (
            producer.transaction(ORDER) as transaction,
            Session(outside, join_transaction_mode="create_savepoint") as session,
        ):
            shop.log.record(session, transaction.transaction_id)
            session.commit()
        assert recording.committed == [ORDER]
        all_of_it.rollback()


def test_one_that_has_ended_inside_may_be_followed_by_another(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with shop.engine.connect() as connection, producer.transaction(ORDER) as transaction:
        with connection.begin():
            shop.log.record(connection, transaction.transaction_id)
        connection.execute(text("SELECT 1"))
    assert recording.committed == [ORDER]


def test_of_the_blocks_own_commit(shop: Shop, producer: TransactionProducer, recording: RecordingTransport) -> None:
    database = shop.log.of(sessionmaker(shop.engine))
    with pytest.raises(RecordLostError), producer.transaction(ORDER, database=database) as transaction:
        transaction.session.add(Parcel(id="there"))
        with pytest.raises(IntegrityError):
            transaction.session.commit()
    nothing_said_commit(shop, recording)


@pytest.mark.parametrize("kind", ["sqlite", "mariadb-repeatable-read"], indirect=True)
def test_of_a_lost_record(shop: Shop, producer: TransactionProducer, recording: RecordingTransport) -> None:
    database = shop.log.of(sessionmaker(shop.engine))
    with (
        pytest.raises(RecordLostError, match="handled inside"),
        producer.transaction(ORDER, database=database) as transaction,
    ):
        transaction.session.execute(text(f"DELETE FROM {shop.log_table}"))  # noqa: S608  (ours)
        with pytest.raises(RecordLostError):
            transaction.session.commit()
    nothing_said_commit(shop, recording)


def test_of_a_flush_in_the_inbox(shop: Shop) -> None:
    inbox = SqlInbox(shop.engine, "points", table="inbox_of_handled_errors")
    inbox.create()
    with (
        pytest.raises(RecordLostError),
        Session(shop.engine) as session,
        session.begin(),
        inbox.once(session, "message") as first,
    ):
        assert first
        flush_twice(session)
    assert parcels(shop.engine) == ["there"]
    with Session(shop.engine) as session, session.begin(), inbox.once(session, "message") as first:
        assert first


def test_a_connection_of_ones_own_is_left_whatever_ended_its_block(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with shop.engine.connect() as connection:
        database = shop.log.of(connection)
        with pytest.raises(LookupError), producer.transaction(ORDER, database=database):
            connection.rollback()
            raise LookupError
        with producer.transaction(ORDER, database=database):
            connection.execute(text("INSERT INTO parcels_of_handled_errors VALUES ('new')"))
    assert recording.committed == [ORDER]
    assert parcels(shop.engine) == ["new", "there"]


class _AnswerLostError(Exception):
    """Of a COMMIT that has arrived all the same."""


def test_a_commit_in_the_block_that_may_still_arrive_is_a_checks_to_find_out(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    """The look after it may come before the COMMIT does: here it is made to."""
    arriving: list[Connection] = []

    def lost(connection: Connection) -> None:
        if not arriving:
            arriving.append(connection)
            raise _AnswerLostError

    database = shop.log.of(sessionmaker(shop.engine))
    with pytest.raises(CheckbackError), producer.transaction(ORDER, database=database) as transaction:
        event.listen(transaction.session.connection(), "commit", lost)
        with pytest.raises(_AnswerLostError):
            transaction.session.commit()
    assert recording.transactions[0].action is Action.UNKNOWN


@pytest.mark.parametrize("kind", ["mariadb-repeatable-read"], indirect=True)
def test_a_commit_by_ddl_is_not_taken_for_a_rollback(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    database: Any = shop.log.of(shop.engine)
    with pytest.raises(LookupError), producer.transaction(ORDER, database=database) as transaction:
        transaction.connection.execute(text("TRUNCATE parcels_of_handled_errors"))
        raise LookupError
    assert recording.transactions[0].action is Action.UNKNOWN
    assert shop.check(recording.transactions[0].transaction_id) is LocalTransactionState.COMMIT
