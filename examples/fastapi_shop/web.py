"""The shop: an order is paid, and whoever gives points hears of it. Both, or neither.

FastAPI, SQLAlchemy's AsyncSession and PostgreSQL: this is all that it takes.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from checkback import (
    BeginTransaction,
    EndpointAnnouncer,
    Message,
    Rollback,
    Topics,
    TransactionDependency,
    TransactionProducer,
    check_app,
)
from checkback.sql.async_transacting import AsyncSessionScope
from checkback.sql.transaction_log import SqlTransactionLog

KAFKA = os.environ.get("SHOP_KAFKA", "localhost:9092")
URL = os.environ.get("SHOP_URL", "http://localhost:8000")  # where the job reaches this process
TOPICS = Topics(os.environ.get("SHOP_TOPIC_PREFIX", "cb."))
GROUP = "fastapi-shop"

engine = create_async_engine(os.environ.get("SHOP_DATABASE", "postgresql+psycopg://localhost/shop"))
sessions = async_sessionmaker(engine)
log = SqlTransactionLog(engine, prune_after=timedelta(days=30))  # remembers what committed: it answers the checks

transactions = TransactionDependency(log.of(sessions))
Begin = Annotated[BeginTransaction[AsyncSessionScope[AsyncSession]], Depends(transactions)]


class Base(DeclarativeBase):
    """The shop's tables."""


class PaidOrder(Base):
    """An order that is paid."""

    __tablename__ = "paid_orders"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables, and be a member of the producer group while the application runs."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await log.create_table_async()
    with (
        closing(EndpointAnnouncer(KAFKA, GROUP, f"{URL}/checkback/", topics=TOPICS)),
        TransactionProducer(KAFKA, GROUP, topics=TOPICS) as producer,
    ):
        async with transactions.serving(producer):
            yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)
app.mount("/checkback", check_app(log, GROUP))


@app.post("/orders/{number}/pay")
async def pay(number: int, begin: Begin) -> dict[str, int]:
    """Pay an order: its row is there and the message appears, or neither."""
    async with begin(Message("points", json.dumps({"order": number}).encode(), b"order-%d" % number)) as transaction:
        if await transaction.session.get(PaidOrder, number):
            raise Rollback("paid before")
        transaction.session.add(PaidOrder(number=number))
        return {"order": number}
    raise HTTPException(409, "Paid before.")  # after a Rollback
