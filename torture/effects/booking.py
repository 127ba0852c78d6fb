"""The listener of a fault run: books an effect of each order in a database, through the inbox or without it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, event, func, insert, select

from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.sql.inbox import SqlInbox
from torture.effects.database import EFFECTS, engine_of
from torture.effects.orders import GROUP, Order
from torture.effects.steps import Step
from torture.effects.strike import Watch


class _LaterError(Exception):
    """The order wants to be tried later: nothing of it is committed."""


class Booking:
    """A listener. ``watch`` is told of its steps; ``url`` is that of the database."""

    def __init__(self, folder: Path, url: str, watch: Watch, *, with_inbox: bool) -> None:
        self._folder = folder
        self._watch = watch
        self._engine = _watched(url, watch)
        self._inbox = SqlInbox(self._engine, GROUP) if with_inbox else None

    def __call__(self, message: ReceivedMessage) -> ConsumeResult:
        """Do what the order wants."""
        self._watch(Step.LISTENER_BEGUN)
        order = Order.of(message.value)
        self._die(message.id, order.deaths)
        time.sleep(order.seconds)
        try:
            self._book(message, order)
        except _LaterError:
            return ConsumeResult.LATER
        self._watch(Step.DATABASE_COMMITTED)
        return ConsumeResult.SUCCESS

    def _book(self, message: ReceivedMessage, order: Order) -> None:
        with self._engine.begin() as connection:
            self._watch(Step.TRANSACTION_BEGUN)
            with self._first(connection, message) as first:
                if not first:
                    return
                self._watch(Step.INBOX_ROW)
                _insert(connection, message, order.name or message.id)
                self._watch(Step.BOOKED)
                if message.tries < order.later:
                    raise _LaterError
                if message.tries < order.raises:
                    raise RuntimeError(f"{message.id} wants the listener to raise")

    def _first(self, connection: Connection, message: ReceivedMessage) -> AbstractContextManager[bool]:
        return self._inbox.once(connection, message) if self._inbox else _always(connection)

    def _die(self, name: str, deaths: int) -> None:
        """A file has a byte for each consumer that the order has killed."""
        file = self._folder / f"deaths-{name}"
        if deaths and (not file.exists() or file.stat().st_size < deaths):
            with file.open("ab") as killed:
                killed.write(b".")
            os.kill(os.getpid(), signal.SIGKILL)


def _insert(connection: Connection, message: ReceivedMessage, order: str) -> None:
    """The effect, and which one of its partition and key it came after, as far as that one was committed."""
    key, lane = None if message.key is None else message.key.decode(), EFFECTS.alias()
    before = select(func.max(lane.c.place)).where(lane.c.partition == message.partition, lane.c.key == key)
    row = {
        "id": order,
        "partition": message.partition,
        "key": key,
        "place": message.offset,
        "before": connection.scalar(before),
        "tries": message.tries,
        "at": time.time(),
    }
    connection.execute(insert(EFFECTS).values(row))


@contextmanager
def _always(_connection: Connection) -> Iterator[bool]:
    yield True


def _watched(url: str, watch: Watch) -> Engine:
    engine = engine_of(url)

    @event.listens_for(engine, "commit")
    def _committing(_connection: Connection) -> None:
        watch.under_way(Step.COMMITTING)

    return engine
