"""The points service: each order that is paid gives its customer points, once.

This is all a consumer needs: PushConsumer, SqlInbox, its own database. Start as many of it as you like.
"""

import json
import logging
import os
import signal
import sys

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, Session, mapped_column
from sqlalchemy.schema import CreateTable

from checkback.consumer import ConsumeResult, ConsumerSettings, Listener, PushConsumer, ReceivedMessage, StartAt
from checkback.sql.inbox import SqlInbox

KAFKA = os.environ.get("POINTS_KAFKA", "localhost:9092")
TOPIC, GROUP = "points", "points"  # what the shop writes for it, and the consumer group
SETTINGS = ConsumerSettings(concurrency=4, start_at=StartAt.FIRST)  # a new service gives points for old orders, too
CLIENT = {"session.timeout.ms": 6_000}  # after so long Kafka gives a dead process's partitions to another; else 45 s

# seconds to wait while another process writes: SQLite has one writer at a time
engine = create_engine(os.environ.get("POINTS_DATABASE", "sqlite:///points.db"), connect_args={"timeout": 20})
inbox = SqlInbox(engine, GROUP)
log = logging.getLogger("points")


class Base(MappedAsDataclass, DeclarativeBase):
    """The service's tables; the inbox has one of its own beside them."""


class Booking(Base):
    """Points for an order. Nothing but the inbox keeps an order from having two."""

    __tablename__ = "bookings"

    order: Mapped[int] = mapped_column(index=True)
    customer: Mapped[str]
    points: Mapped[int]
    tries: Mapped[int]
    """How often it was tried before in vain."""
    number: Mapped[int] = mapped_column(primary_key=True, init=False)


class Account(Base):
    """The points that a customer has."""

    __tablename__ = "accounts"

    customer: Mapped[str] = mapped_column(primary_key=True)
    points: Mapped[int]


def book(message: ReceivedMessage) -> ConsumeResult:
    """Book an order's points: memory of the message, booking and account are committed together, or not at all."""
    paid = json.loads(message.value or b"")
    with Session(engine) as session, session.begin(), inbox.once(session, message) as first:
        if first:
            session.add(Booking(paid["order"], paid["customer"], paid["points"], message.tries))
            account = session.get(Account, paid["customer"], with_for_update=True) or Account(paid["customer"], 0)
            account.points += paid["points"]
            session.add(account)
        else:
            log.info("order %s came again, and was passed over", paid["order"])
    return ConsumeResult.SUCCESS  # an exception, a full disk's for one, says "later", and leaves nothing behind


def serve(listener: Listener, settings: ConsumerSettings) -> None:
    """Book until SIGTERM, or until the consumer cannot go on."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with engine.begin() as connection:
        for table in Base.metadata.sorted_tables:  # two processes may start at once
            connection.execute(CreateTable(table, if_not_exists=True))
    inbox.create()
    with PushConsumer(KAFKA, GROUP, listener, TOPIC, settings=settings, kafka_options=CLIENT) as consumer:
        consumer.wait()


if __name__ == "__main__":
    serve(book, SETTINGS)
