"""The shop: an order is paid, and logistics, points and cart hear of it. All of that happens, or nothing.

This is all an application needs: FastAPI, SQLAlchemy, its own database.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, Session, mapped_column

from checkback import EndpointAnnouncer, Message, Rollback, TransactionProducer, check_app
from checkback.sql.transaction_log import SqlTransactionLog

KAFKA = os.environ.get("SHOP_KAFKA", "localhost:9092")
URL = os.environ.get("SHOP_URL", "http://localhost:8000")  # where the job reaches this process
CARD_LIMIT_CENTS = 50_000

engine = create_engine(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"))
log = SqlTransactionLog(engine)  # remembers which transactions committed: it answers the checks


class Base(MappedAsDataclass, DeclarativeBase):
    """The shop's tables."""


class Order(Base):
    """An order, paid or not."""

    __tablename__ = "orders"

    customer: Mapped[str]
    cents: Mapped[int]
    number: Mapped[int] = mapped_column(primary_key=True, init=False)
    paid: Mapped[bool] = mapped_column(default=False)


class NewOrder(BaseModel):
    """What a customer sends."""

    customer: str
    cents: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the tables, and be a member of the producer group ``shop`` while the application runs."""
    Base.metadata.create_all(engine)
    log.create_table()
    announcer = EndpointAnnouncer(KAFKA, "shop", f"{URL}/checkback/")
    with closing(announcer), TransactionProducer(KAFKA, "shop") as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/checkback", check_app(log, "shop"))


@app.post("/orders")
def place(new: NewOrder) -> dict[str, int]:
    """Place an order; nobody else is told before it is paid."""
    with Session(engine) as session, session.begin():
        order = Order(new.customer, new.cents)
        session.add(order)
        session.flush()
        return {"order": order.number}


@app.post("/orders/{number}/pay")
def pay(number: int, request: Request) -> dict[str, int]:
    """Pay an order: its row changes and three messages appear, or neither."""
    with Session(engine) as session:
        order = session.get(Order, number)
    if order is None:
        raise HTTPException(404, "There is no such order.")

    transaction = request.app.state.producer.begin()
    for topic, message in messages(order).items():
        transaction.add(Message(topic, message, order.customer.encode()))
    with transaction as half:  # the three messages are safe in Kafka now, and nobody sees them
        with Session(engine) as session, session.begin():
            log.record(session, half.transaction_id)
            order = session.get_one(Order, number, with_for_update=True)
            if order.paid or order.cents > CARD_LIMIT_CENTS:
                raise Rollback("paid before, or the card was refused")
            order.paid = True
        return {"order": number}
    raise HTTPException(402, "Paid before, or the card was refused.")  # after a Rollback


def messages(order: Order) -> dict[str, bytes]:
    """What the other services get when an order is paid, by topic."""
    wanted = {
        "logistics": {"order": order.number, "ship_to": order.customer},
        "points": {"order": order.number, "customer": order.customer, "points": order.cents // 100},
        "cart": {"order": order.number, "empty_cart_of": order.customer},
    }
    return {topic: json.dumps(message).encode() for topic, message in wanted.items()}
