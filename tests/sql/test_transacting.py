"""``producer.transaction(message, database=...)``: the order of its steps, and what must not come apart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from checkback import (
    CheckbackError,
    ConfigurationError,
    HalfMessageError,
    LocalTransactionState,
    Message,
    RecordLostError,
    Rollback,
    TransactionBlockedError,
    TransactionProducer,
)
from checkback.kafka.transport import Appended
from checkback.sql.transacting import ConnectionScope, SessionScope
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.sql.shop import Shop, shop_of

EACH = ["sqlite", "sqlite-begin-wal", "postgresql-read-committed", "mariadb-repeatable-read"]
ORDER = Message("points", b"1")


@pytest.fixture(params=EACH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        yield made


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def producer(recording: RecordingTransport) -> Iterator[TransactionProducer]:
    with TransactionProducer("", "orders", transport=recording) as made:
        yield made


@pytest.fixture(params=["engine", "connection", "sessionmaker", "session", "scoped_session"])
def database(request: pytest.FixtureRequest, shop: Shop) -> Iterator[Any]:
    """Whatever ``log.of`` takes."""
    opened: dict[str, Any] = {
        "engine": lambda: shop.engine,
        "connection": shop.engine.connect,
        "sessionmaker": lambda: sessionmaker(shop.engine),
        "session": lambda: Session(shop.engine),
        "scoped_session": lambda: scoped_session(sessionmaker(shop.engine)),
    }
    given = opened[request.param]()
    yield shop.log.of(given)
    if not isinstance(given, Engine | sessionmaker):
        given.close()


def undone(kind: str) -> Action:
    """What the op says where the transaction ended before its block did: MySQL may have committed it, at DDL."""
    return Action.UNKNOWN if kind.startswith("mariadb") else Action.ROLLBACK


def work(scope: Any) -> Any:
    return scope.connection if isinstance(scope, ConnectionScope) else scope.session


def test_a_block_commits_the_database_first_and_then_the_message(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    states = []
    event.listen(shop.engine, "commit", lambda _: states.append(recording.transactions[0].action))
    with producer.transaction(ORDER, database=database) as transaction:
        shop.order(work(transaction), "tx")
        assert recording.transactions[0].action is None
    assert states == [None]
    assert recording.committed == [ORDER]
    assert shop.rows() == [(transaction.transaction_id, "committed")]
    assert shop.sold("tx")
    assert shop.check(transaction.transaction_id) is LocalTransactionState.COMMIT


def test_one_database_serves_one_block_after_the_other(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    for number in range(3):
        with producer.transaction([ORDER, Message("parcels", b"2")], database=database) as transaction:
            shop.order(work(transaction), f"tx-{number}")
            if number == 1:
                raise Rollback("sold out")
    assert [one.action for one in recording.transactions] == [Action.COMMIT, Action.ROLLBACK, Action.COMMIT]
    assert [shop.sold(f"tx-{number}") for number in range(3)] == [True, False, True]
    assert len(recording.committed) == 4


def test_an_error_of_the_block_rolls_both_back_at_once(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with pytest.raises(LookupError, match="gone"), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        shop.order(work(transaction), "tx")
        raise LookupError("gone")
    (left,) = recording.transactions
    assert (left.action, left.remark) == (Action.ROLLBACK, "the transaction's code raised LookupError('gone')")
    assert not shop.sold("tx")
    assert shop.rows() == []


def test_an_error_of_the_database_likewise(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with shop.engine.begin() as connection:
        shop.order(connection, "tx")
    with pytest.raises(IntegrityError), producer.transaction(ORDER, database=database) as transaction:
        shop.order(work(transaction), "tx")
    assert recording.transactions[0].action is Action.ROLLBACK
    assert shop.rows() == []


def test_what_only_the_flush_before_the_commit_finds_is_rolled_back_too(
    shop: Shop, kind: str, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = shop.orders
        id: Mapped[str] = mapped_column(primary_key=True)

    with shop.engine.begin() as connection:
        shop.order(connection, "tx")
    sessions = shop.log.of(sessionmaker(shop.engine))
    with pytest.raises(IntegrityError), producer.transaction(ORDER, database=sessions) as transaction:
        transaction.session.add(Order(id="tx"))
    with producer.transaction(ORDER, database=sessions) as transaction:
        transaction.session.add(Order(id="another"))
    assert [one.action for one in recording.transactions] == [undone(kind), Action.COMMIT]
    assert shop.sold("another")


class ConnectionLostError(Exception):
    """For the driver's."""


@pytest.mark.parametrize("error", [ConnectionLostError(), KeyboardInterrupt()])
@pytest.mark.parametrize("arrived", ["arrived", ""])
def test_when_commit_itself_fails_the_check_decides(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport, error: BaseException, arrived: str
) -> None:
    def commit(connection: Connection) -> None:
        if arrived:
            connection.connection.commit()
        raise error

    event.listen(shop.engine, "commit", commit)
    database = shop.log.of(sessionmaker(shop.engine))
    with pytest.raises(type(error)), producer.transaction(ORDER, database=database) as transaction:
        shop.order(transaction.session, "tx")
    event.remove(shop.engine, "commit", commit)
    assert recording.transactions[0].action is Action.UNKNOWN
    expected = LocalTransactionState.COMMIT if arrived else LocalTransactionState.ROLLBACK
    assert shop.check(transaction.transaction_id) is expected
    assert shop.sold("tx") is bool(arrived)


def test_a_commit_that_the_log_does_not_know_of_is_never_told_as_a_rollback(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    """As DDL does it on MySQL: the database has it, and then the block fails."""
    for error in (LookupError("gone"), Rollback("no")):
        try:
            with producer.transaction(ORDER, database=database) as transaction:
                opened = work(transaction)
                connection = opened if isinstance(opened, Connection) else opened.connection()
                connection.connection.commit()
                raise error
        except LookupError:
            pass
        assert recording.transactions[-1].action is Action.UNKNOWN
        assert shop.check(transaction.transaction_id) is LocalTransactionState.COMMIT


def test_a_commit_in_the_block_ends_it(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with producer.transaction(ORDER, database=database) as transaction:
        shop.order(work(transaction), "tx-1")
        work(transaction).commit()
    assert recording.committed == [ORDER]
    with pytest.raises(InvalidRequestError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        shop.order(work(transaction), "tx-2")
        work(transaction).commit()
        shop.order(work(transaction), "tx-3")
    assert recording.transactions[1].action is Action.UNKNOWN
    assert shop.check(transaction.transaction_id) is LocalTransactionState.COMMIT
    assert [shop.sold(f"tx-{number}") for number in (1, 2, 3)] == [True, True, False]


def test_a_rollback_in_the_block_is_no_commit(
    shop: Shop, kind: str, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with producer.transaction(ORDER, database=database) as transaction:
        shop.order(work(transaction), "tx")
        work(transaction).rollback()
    assert recording.transactions[0].action is undone(kind)
    assert (shop.rows(), shop.sold("tx")) == ([], False)


@pytest.mark.parametrize("kind", [one for one in EACH if not one.startswith("postgresql")], indirect=True)
def test_a_rollback_underneath_is_no_commit(
    shop: Shop, kind: str, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with pytest.raises(RecordLostError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        opened = work(transaction)
        (opened if isinstance(opened, Connection) else opened.connection()).connection.rollback()
        shop.order(opened, "tx")
    assert recording.transactions[0].action is undone(kind)
    assert shop.rows() == []
    if kind != "sqlite-begin-wal":  # where SQLAlchemy sends BEGIN, what comes after is committed by itself
        assert not shop.sold("tx")


@pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)
def test_an_error_that_is_swallowed_is_no_commit(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    """PostgreSQL answers COMMIT with ROLLBACK then, and no driver raises."""
    with pytest.raises(RecordLostError), producer.transaction(ORDER, database=database) as transaction:  # noqa: PT012  (what is inside is the test)
        shop.order(work(transaction), "tx")
        with pytest.raises(DBAPIError):
            work(transaction).execute(text("SELECT no_such_column"))
    assert recording.transactions[0].action is Action.ROLLBACK
    assert not shop.sold("tx")


def test_a_check_that_comes_first_keeps_the_block_from_running(shop: Shop, database: Any) -> None:
    class Checked(RecordingTransport):
        def write_half(self, record: Any) -> Appended:
            appended = super().write_half(record)
            shop.check(self.transactions[-1].transaction_id)
            return appended

    recording, ran = Checked(), False
    with (
        TransactionProducer("", "orders", transport=recording) as producer,
        pytest.raises(TransactionBlockedError),
        producer.transaction(ORDER, database=database),
    ):
        ran = True
    assert not ran
    assert recording.transactions[0].action is Action.ROLLBACK


def test_without_a_half_message_no_database_transaction_begins(
    shop: Shop, database: Any, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    recording.refuse_halves = HalfMessageError("no Kafka")
    begun = []
    event.listen(shop.engine, "begin", begun.append)
    with pytest.raises(HalfMessageError), producer.transaction(ORDER, database=database):
        pass
    assert begun == []


@pytest.mark.parametrize("of", ["connection", "session", "bound session"])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_database_transaction_around_the_block_is_refused_before_anything_is_written(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport, of: str
) -> None:
    with shop.engine.connect() as connection, Session(shop.engine) as session:
        connection.execute(text("SELECT 1"))
        session.execute(text("SELECT 1"))
        given: dict[str, Any] = {
            "connection": connection,
            "session": session,
            "bound session": sessionmaker(connection),
        }
        with (
            pytest.raises(ConfigurationError, match=r"already.*Call commit\(\) or rollback\(\) before"),
            producer.transaction(ORDER, database=shop.log.of(given[of])),
        ):
            pass
        assert recording.transactions == []
        given["connection"].rollback()
        session.rollback()
        with producer.transaction(ORDER, database=shop.log.of(given[of])):
            pass
    assert recording.committed == [ORDER]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_block_in_a_block_of_the_same_session_is_refused(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with Session(shop.engine) as session:
        database = shop.log.of(session)
        with pytest.raises(ConfigurationError, match="already"), producer.transaction(ORDER, database=database):  # noqa: SIM117  (the test is what is inside)
            with producer.transaction(ORDER, database=database):
                pass
    assert [one.action for one in recording.transactions] == [Action.ROLLBACK]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_decorated_function_has_the_session(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    class OurSession(Session):
        pass

    sessions = sessionmaker(shop.engine, class_=OurSession)

    @producer.transactional(lambda name: Message("points", name.encode()), database=shop.log.of(sessions))
    def sell(transaction: SessionScope[OurSession], name: str) -> str:
        assert isinstance(transaction.session, OurSession)
        shop.order(transaction.session, name)
        if name == "none":
            raise Rollback
        return name

    assert [sell("a"), sell("none"), sell(name="b")] == ["a", None, "b"]
    assert [message.value for message in recording.committed] == [b"a", b"b"]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_what_would_run_after_its_transaction_is_not_decorated(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    async def coroutine(_transaction: Any) -> None: ...

    def generator(_transaction: Any) -> Iterator[None]:
        yield

    for function in (coroutine, generator):
        for database in (None, shop.log.of(shop.engine)):
            decorate: Any = producer.transactional(lambda: ORDER, database=database)  # type: ignore[arg-type]  # None is the default
            with pytest.raises(ConfigurationError, match="would run after"):
                decorate(function)
            with pytest.raises(TypeError, match="Nothing is committed"):
                decorate(lambda transaction, lazy=function: lazy(transaction))()
    assert recording.committed == []
    assert shop.rows() == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_connection_goes_back_and_what_is_none_is_refused(
    shop: Shop, producer: TransactionProducer, recording: RecordingTransport
) -> None:
    with pytest.raises(ConfigurationError, match="not str"):
        shop.log.of("sqlite://")
    for slip in (shop.engine, shop.log):
        with pytest.raises(ConfigurationError, match=r"database=log\.of\(engine\)"):
            producer.transaction(ORDER, database=slip)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ConfigurationError, match="not a timedelta"):
        shop.log.prune(30)
    for given in (shop.engine, sessionmaker(shop.engine)):
        transaction = producer.transaction(ORDER, database=shop.log.of(given))
        with pytest.raises(CheckbackError, match="not begun"):
            work(transaction)
        with transaction:
            assert shop.engine.pool.checkedout() == 1  # type: ignore[attr-defined]  # a queue's
        assert shop.engine.pool.checkedout() == 0  # type: ignore[attr-defined]  # a queue's
