"""The dependency for FastAPI, in an application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, HTTPException
from httpx import ASGITransport, AsyncClient
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from checkback import (
    BeginTransaction,
    Message,
    ProducerClosedError,
    Rollback,
    TransactionDependency,
    TransactionProducer,
    check_app,
)
from checkback.sql.async_transacting import AsyncSessionScope
from checkback.sql.transaction_log import SqlTransactionLog
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Action
from tests.sql.shop import question

TEXT = "CREATE TABLE IF NOT EXISTS paid (number INTEGER PRIMARY KEY)"


@pytest.fixture
def engine(tmp_path: Path) -> AsyncEngine:
    return create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def app(engine: AsyncEngine, recording: RecordingTransport) -> FastAPI:
    log = SqlTransactionLog(engine)
    transactions = TransactionDependency(log.of(async_sessionmaker(engine)))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await log.create_table_async()
        async with engine.begin() as connection:
            await connection.execute(text(TEXT))
        with TransactionProducer("", "orders", transport=recording) as producer:
            async with transactions.serving(producer):
                yield
        await engine.dispose()

    made = FastAPI(lifespan=lifespan)
    made.mount("/checkback", check_app(log, "orders"))

    @made.post("/orders/{number}/pay")
    async def pay(
        number: int, begin: Annotated[BeginTransaction[AsyncSessionScope[AsyncSession]], Depends(transactions)]
    ) -> dict[str, int]:
        async with begin(Message("points", b"%d" % number)) as transaction:
            new = text("INSERT INTO paid VALUES (:number) ON CONFLICT DO NOTHING RETURNING number")
            if not (await transaction.session.execute(new, {"number": number})).all():
                raise Rollback("paid before")
            return {"order": number}
        raise HTTPException(409, "Paid before.")

    return made


def client_of(app: FastAPI) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app), base_url="http://shop")


def test_an_endpoint_commits_both_or_neither_and_answers_checks(app: FastAPI, recording: RecordingTransport) -> None:
    async def run() -> tuple[list[int], list[str]]:
        async with app.router.lifespan_context(app), client_of(app) as client:
            paid = [(await client.post(f"/orders/{number}/pay")).status_code for number in (1, 2, 1)]
            asked = [question(one.transaction_id).to_json() for one in recording.transactions]
            return paid, [(await client.post("/checkback/", json=one)).json()["state"] for one in asked]

    assert asyncio.run(run()) == ([200, 200, 409], ["commit", "commit", "rollback"])
    assert [one.action for one in recording.transactions] == [Action.COMMIT, Action.COMMIT, Action.ROLLBACK]


def test_without_its_lifespan_it_says_what_is_missing(app: FastAPI) -> None:
    async def run() -> None:
        async with client_of(app) as client:
            await client.post("/orders/1/pay")

    with pytest.raises(ProducerClosedError, match="lifespan"):
        asyncio.run(run())
