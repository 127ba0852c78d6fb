"""The inbox in asyncio, on SQLite, PostgreSQL and MariaDB."""

import asyncio
import re
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from checkback import ConfigurationError, RecordLostError
from checkback.consumer import AsyncPushConsumer, ConsumeResult
from checkback.sql.inbox import SqlInbox
from tests.consumer.kafka_fake import FakeKafka
from tests.consumer.waiting import soon
from tests.sql.points import LATER, PAGE, SUCCESS, HandlerError
from torture.local_mariadb import ON_MYSQL


@pytest.fixture(params=["sqlite", "postgresql+psycopg", "postgresql+asyncpg", "mysql+asyncmy", "mariadb+aiomysql"])
def asynchronous(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncEngine:
    if request.param == "sqlite":
        return create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'points.db'}")
    if ON_MYSQL and request.param.startswith("mariadb"):
        pytest.skip("SQLAlchemy's mariadb is for MariaDB only.")
    server: URL = request.getfixturevalue("postgres" if request.param.startswith("postgresql") else "mariadb")
    return create_async_engine(server.set(drivername=request.param))


def test_asyncio_has_the_same(asynchronous: AsyncEngine) -> None:
    inbox = SqlInbox(asynchronous, "points", table=f"inbox_{uuid.uuid4().hex[:8]}")

    @inbox.handler
    async def give(session: AsyncSession, message: str) -> ConsumeResult | None:
        assert isinstance(session, AsyncSession)
        return LATER if message == "b" else None

    async def run() -> None:
        await inbox.create_async()
        async with AsyncSession(asynchronous) as session, session.begin(), inbox.once(session, "a") as first:
            assert first
        async with asynchronous.begin() as connection, inbox.once_each(connection, ["a", "c"]) as new:
            assert new == ["c"]
        async with asynchronous.connect() as connection:
            with pytest.raises(HandlerError):
                async with inbox.once(connection, "d"):
                    raise HandlerError
            await connection.commit()
        given = [await give(message) for message in ("b", "b", "d", "d")]
        assert given == [LATER, LATER, SUCCESS, SUCCESS]
        assert inbox.passed_over == 2
        assert await inbox.prune_async(timedelta(days=1)) == 0
        assert await inbox.prune_async(timedelta(microseconds=1), batch=2) == 3
        await asynchronous.dispose()

    asyncio.run(run())


def test_asyncio_refuses_a_commit_and_allows_a_rollback(asynchronous: AsyncEngine) -> None:
    inbox = SqlInbox(asynchronous, "points", table=f"inbox_{uuid.uuid4().hex[:8]}")

    @inbox.handler
    async def give(session: AsyncSession, message: str) -> None:
        if message == "commits":
            await session.commit()
        if message == "below":
            await (await session.connection()).commit()
        await session.rollback()
        async with session.begin_nested():
            await session.execute(text("SELECT 1"))

    async def run() -> None:
        await inbox.create_async()
        for message in ("commits", "below"):
            with pytest.raises(ConfigurationError, match=r"commit\(\)"):
                await give(message)
        assert [await give("a"), await give("a")] == [SUCCESS, SUCCESS]
        assert inbox.passed_over == 1
        async with asynchronous.begin() as connection, inbox.once_each(connection, ["commits", "below"]) as new:
            assert new == ["commits", "below"]
        await asynchronous.dispose()

    asyncio.run(run())


def test_asyncio_refuses_to_commit_what_is_gone(asynchronous: AsyncEngine) -> None:
    """After an error that a handler has forgiven, or a savepoint that was rolled back alone."""
    inbox = SqlInbox(asynchronous, "points", table=f"inbox_{uuid.uuid4().hex[:8]}")

    @inbox.handler
    async def give(session: AsyncSession, message: str) -> None:
        with suppress(DBAPIError):
            await session.execute(text("SELECT * FROM nowhere"))

    async def run() -> None:
        await inbox.create_async()
        if asynchronous.dialect.name == "postgresql":
            with pytest.raises(RecordLostError):
                await give("a")
        else:
            assert await give("a") is SUCCESS
        async with asynchronous.connect() as connection:
            savepoint = await connection.begin_nested()
            async with inbox.once(connection, "b") as first:
                assert first
            await savepoint.rollback()
            with pytest.raises(RecordLostError):
                await connection.commit()
        async with asynchronous.begin() as connection, inbox.once_each(connection, ["a", "b"]) as new:
            assert new == (["a", "b"] if asynchronous.dialect.name == "postgresql" else ["b"])
        await asynchronous.dispose()

    asyncio.run(run())


def test_the_pages_service_gives_points_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Kafka in memory, which has one message twice."""
    monkeypatch.chdir(tmp_path)
    kafka = FakeKafka()

    class Here(AsyncPushConsumer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, clients=kafka)

        async def wait(self, seconds: float | None = None) -> bool:
            await asyncio.to_thread(soon, lambda: self.figures().partitions)  # it starts at the end
            kafka.write("shop.orders", b"10", b"10")
            await asyncio.to_thread(soon, lambda: self.figures().all.done == 2)
            return True

    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for number in (0, 2):
        exec(compile(blocks[number], PAGE.name, "exec"), names)  # noqa: S102  (that is the test)
    with names["engine"].begin() as connection:
        connection.execute(text("CREATE TABLE points (body BLOB)"))
    names["AsyncPushConsumer"] = Here
    kafka.topics["shop.orders"] = 1
    asyncio.run(names["service"]())
    with names["engine"].connect() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM points")) == 1
    names["engine"].dispose()


def test_a_coroutine_that_gives_another_has_not_run(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'points.db'}")
    inbox = SqlInbox(engine, "points")

    async def handle(session: AsyncSession, message: str) -> None:
        raise HandlerError

    @inbox.handler
    async def forgets_to_await(session: AsyncSession, message: str) -> Any:
        return handle(session, message)

    async def run() -> None:
        await inbox.create_async()
        with pytest.raises(TypeError, match="must return a ConsumeResult or None"):
            await forgets_to_await("a")
        async with engine.begin() as connection, inbox.once(connection, "a") as first:
            assert first
        await engine.dispose()

    asyncio.run(run())


def test_asyncio_refuses_autocommit_and_what_is_not_asyncios(asynchronous: AsyncEngine) -> None:
    inbox = SqlInbox(asynchronous, "points", table=f"inbox_{uuid.uuid4().hex[:8]}")
    with pytest.raises(ConfigurationError, match="AsyncEngine: use create_async"):
        inbox.create()
    with pytest.raises(ConfigurationError, match="AsyncEngine: use an 'async def'"):
        inbox.handler(print)

    async def run() -> None:
        await inbox.create_async()
        by_itself = asynchronous.execution_options(isolation_level="AUTOCOMMIT")
        async with by_itself.connect() as connection:
            with pytest.raises(ConfigurationError, match="autocommit"):
                async with inbox.once(connection, "a"):
                    pass
        await asynchronous.dispose()

    asyncio.run(run())
