"""The log in asyncio, and blocks of the producer's asyncio face with a session, on each driver."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from checkback import (
    AsyncTransactionProducer,
    CheckbackError,
    ConfigurationError,
    DuplicateTransactionError,
    LocalTransactionState,
    Message,
    Rollback,
    TransactionBlockedError,
    TransactionProducer,
    check_app,
)
from checkback.kafka.transport import Appended
from checkback.sql.transaction_log import SqlTransactionLog
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.answering.endpoint import request as http_request
from tests.place import wait_until
from tests.sql.shop import question

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
DRIVERS = ["sqlite+aiosqlite", "postgresql+psycopg", "postgresql+asyncpg", "mysql+asyncmy"]
ORDER = Message("points", b"1")


@pytest.fixture(params=DRIVERS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """Of each driver."""
    driver = str(request.param)
    pytest.importorskip(driver.partition("+")[2], reason="the driver is not installed")
    if driver.startswith("sqlite"):
        return URL.create(driver, database=str(tmp_path / "shop.db"))
    server: URL = request.getfixturevalue("postgres" if driver.startswith("postgresql") else "mariadb")
    return server.set(drivername=driver)


@dataclass
class AsyncShop:
    """An application in asyncio with one table of its own beside the log."""

    engine: AsyncEngine
    log: SqlTransactionLog
    orders: str
    recording: RecordingTransport
    producer: AsyncTransactionProducer

    async def order(self, connection: AsyncConnection | AsyncSession, name: str) -> None:
        await connection.execute(text(f"INSERT INTO {self.orders} VALUES (:id)"), {"id": name})  # noqa: S608  (ours)

    async def sold(self) -> list[str]:
        async with self.engine.connect() as connection:
            return list(await connection.scalars(text(f"SELECT id FROM {self.orders} ORDER BY id")))  # noqa: S608  (ours)

    async def check(self, transaction_id: str) -> LocalTransactionState:
        return await asyncio.to_thread(self.log.check_local_transaction, question(transaction_id))

    def actions(self) -> list[Action | None]:
        return [one.action for one in self.recording.transactions]


@asynccontextmanager
async def open_shop(url: URL, recording: RecordingTransport) -> AsyncIterator[AsyncShop]:
    suffix = uuid.uuid4().hex[:8]
    engine = create_async_engine(url)
    log = SqlTransactionLog(engine, table=f"log_{suffix}", lock_timeout_ms=100)
    await log.create_table_async()
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE TABLE orders_{suffix} (id VARCHAR(64) PRIMARY KEY)"))
    with TransactionProducer("", "orders", transport=recording) as producer:
        async with AsyncTransactionProducer(producer) as face:
            yield AsyncShop(engine, log, f"orders_{suffix}", recording, face)
    await engine.dispose()


Scenario = Callable[[AsyncShop], Awaitable[None]]


@pytest.fixture
def run(url: URL) -> Callable[[Scenario], None]:
    def in_shop(scenario: Scenario, recording: RecordingTransport | None = None) -> None:
        async def all_of_it() -> None:
            async with open_shop(url, recording or RecordingTransport()) as shop:
                await scenario(shop)

        asyncio.run(all_of_it())

    return in_shop


def openers(shop: AsyncShop) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Whatever ``log.of`` takes, and what a block of it works with."""
    sessions = async_sessionmaker(shop.engine)
    return [
        (shop.engine, lambda transaction: transaction.connection),
        (sessions, lambda transaction: transaction.session),
        (sessions(), lambda transaction: transaction.session),
        (async_scoped_session(sessions, asyncio.current_task), lambda transaction: transaction.session),
    ]


def test_the_log_records_in_the_callers_transaction_and_answers(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        async with AsyncSession(shop.engine) as session, session.begin():
            await shop.log.record(session, "tx-1")
            assert await shop.check("tx-1") is UNKNOWN
        async with shop.engine.begin() as connection:
            await shop.log.record(connection, "tx-2")
        with pytest.raises(DuplicateTransactionError):
            async with shop.engine.begin() as connection:
                await shop.log.record(connection, "tx-1")
        assert [await shop.check(one) for one in ("tx-1", "tx-2", "tx-3")] == [COMMIT, COMMIT, ROLLBACK]
        with pytest.raises(TransactionBlockedError):
            async with shop.engine.begin() as connection:
                await shop.log.record(connection, "tx-3")
        by_itself = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
        async with by_itself.connect() as connection:
            with pytest.raises(ConfigurationError, match="autocommit"):
                await shop.log.record(connection, "tx-4")
        assert await shop.log.prune_async(timedelta(days=1)) == 0
        assert await shop.log.prune_async(timedelta(microseconds=1)) == 3

    run(scenario)


def test_an_endpoint_answers_while_the_loop_is_busy(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        async with shop.engine.begin() as connection:
            await shop.log.record(connection, "tx")
        app = check_app(shop.log, "orders")
        # not awaited: this loop stands still meanwhile
        answers = [http_request_in_thread(app, one) for one in ("tx", "none")]
        assert answers == ["commit", "rollback"]
        with pytest.raises(ConfigurationError, match=r"asyncio\.to_thread"):
            shop.log.check_local_transaction(question("tx"))

    run(scenario)


def http_request_in_thread(app: Any, transaction_id: str) -> str:
    with ThreadPoolExecutor(1) as thread:
        response = thread.submit(http_request, app, question(transaction_id).to_json()).result(60)
    return str(response.json()["state"])


def test_blocks_commit_both_or_roll_both_back(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        expected: list[str] = []
        for number, (given, work) in enumerate(openers(shop)):
            database = shop.log.of(given)
            async with shop.producer.transaction(ORDER, database=database) as transaction:
                await shop.order(work(transaction), f"{number}-commits")
            assert await shop.check(transaction.transaction_id) is COMMIT
            async with shop.producer.transaction([ORDER, ORDER], database=database) as transaction:
                await shop.order(work(transaction), f"{number}-rolls-back")
                raise Rollback("sold out")
            with pytest.raises(LookupError):  # noqa: PT012  (what is inside is the test)
                async with shop.producer.transaction(ORDER, database=database) as transaction:
                    await shop.order(work(transaction), f"{number}-fails")
                    raise LookupError
            with pytest.raises(IntegrityError):
                async with shop.producer.transaction(ORDER, database=database) as transaction:
                    await shop.order(work(transaction), f"{number}-commits")
            async with shop.producer.transaction(ORDER, database=database) as transaction:
                await shop.order(work(transaction), f"{number}-rolled-back")
                await work(transaction).rollback()
            inside = Action.UNKNOWN if shop.engine.dialect.name == "mysql" else Action.ROLLBACK
            assert shop.actions() == [Action.COMMIT, *[Action.ROLLBACK] * 3, inside] * (number + 1)
            expected.append(f"{number}-commits")
            if isinstance(given, AsyncSession | async_scoped_session):
                await given.close()
        assert await shop.sold() == expected

    run(scenario)


def test_a_commit_in_the_block_is_never_told_as_a_rollback(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        database = shop.log.of(async_sessionmaker(shop.engine))
        with pytest.raises(InvalidRequestError):  # noqa: PT012  (what is inside is the test)
            async with shop.producer.transaction(ORDER, database=database) as transaction:
                await shop.order(transaction.session, "a")
                await transaction.session.commit()
                await shop.order(transaction.session, "b")
        assert shop.actions() == [Action.UNKNOWN]
        assert await shop.check(transaction.transaction_id) is COMMIT

    run(scenario)


def test_a_task_that_is_cancelled_in_the_block_leaves_it_to_the_check(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        inside, database = asyncio.Event(), shop.log.of(async_sessionmaker(shop.engine))

        async def pay() -> None:
            async with shop.producer.transaction(ORDER, database=database) as transaction:
                await shop.order(transaction.session, "a")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(pay())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert shop.actions() == [Action.UNKNOWN]
        assert await shop.check(shop.recording.transactions[0].transaction_id) is ROLLBACK
        assert await shop.sold() == []

    run(scenario)


@pytest.mark.parametrize("url", DRIVERS[:1], indirect=True)
def test_a_task_that_is_cancelled_while_the_block_ends_has_ended_it(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        committing, go_on = asyncio.Event(), asyncio.Event()

        class Slow(AsyncSession):
            async def run_sync(self, fn: Any, *arguments: Any, **named: Any) -> Any:
                if shop.recording.transactions and stopping.is_set():
                    committing.set()
                    await go_on.wait()
                return await super().run_sync(fn, *arguments, **named)

        stopping = asyncio.Event()
        database = shop.log.of(async_sessionmaker(shop.engine, class_=Slow))

        async def pay() -> None:
            async with shop.producer.transaction(ORDER, database=database) as transaction:
                await shop.order(transaction.session, "a")
                stopping.set()

        task = asyncio.create_task(pay())
        await committing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.to_thread(wait_until, lambda: shop.actions() != [None])
        assert shop.actions() == [Action.COMMIT]
        assert await shop.sold() == ["a"]

    run(scenario)


def test_a_check_that_comes_first_keeps_the_block_from_running(url: URL) -> None:
    class Checked(RecordingTransport):
        log: SqlTransactionLog

        def write_half(self, record: Any) -> Appended:
            appended = super().write_half(record)
            assert self.log.check_local_transaction(question(self.transactions[-1].transaction_id)) is ROLLBACK
            return appended

    async def scenario() -> None:
        recording = Checked()
        async with open_shop(url, recording) as shop:
            recording.log = shop.log
            with pytest.raises(TransactionBlockedError):
                async with shop.producer.transaction(ORDER, database=shop.log.of(shop.engine)):
                    raise AssertionError
            assert shop.actions() == [Action.ROLLBACK]

    asyncio.run(scenario())


@pytest.mark.parametrize("url", DRIVERS[:1], indirect=True)
def test_a_session_that_is_in_a_transaction_is_refused(run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        async with AsyncSession(shop.engine) as session, shop.engine.connect() as connection:
            for given in (session, connection):
                database = shop.log.of(given)
                await given.execute(text("SELECT 1"))
                with pytest.raises(ConfigurationError, match=r"already.*Call commit\(\) or rollback\(\) before"):
                    async with shop.producer.transaction(ORDER, database=database):
                        pass
                await given.rollback()
                async with shop.producer.transaction(ORDER, database=database):
                    pass
        assert shop.actions() == [Action.COMMIT] * 2
        with pytest.raises(CheckbackError, match="not begun"):
            _ = shop.producer.transaction(ORDER, database=shop.log.of(shop.engine)).connection

    run(scenario)


@pytest.mark.parametrize("url", DRIVERS[:1], indirect=True)
def test_each_log_is_for_its_kind_of_engine(url: URL, run: Callable[[Scenario], None]) -> None:
    async def scenario(shop: AsyncShop) -> None:
        with pytest.raises(ConfigurationError, match="use create_table_async"):
            shop.log.create_table()
        with pytest.raises(ConfigurationError, match="use prune_async"):
            shop.log.prune(timedelta(days=1))
        engine = create_engine(url.set(drivername="sqlite"))
        with pytest.raises(ConfigurationError, match="leave _async out"):
            await SqlTransactionLog(engine).create_table_async()
        engine.dispose()

    run(scenario)
