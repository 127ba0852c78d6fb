"""The listener of a fault run: books an effect of each order in a SQLite file, through the inbox or without it.

The table of effects has no unique key: an effect that is booked twice is there twice.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text

from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.inbox import SqlInbox
from torture.effects.orders import GROUP, Order
from torture.effects.steps import Step
from torture.effects.strike import Watch

EFFECTS = "effects.db"
_TABLE = "CREATE TABLE IF NOT EXISTS effects (id TEXT, partition INTEGER, tries INTEGER, at REAL)"
_BOOK = text("INSERT INTO effects VALUES (:id, :partition, :tries, :at)")


class _LaterError(Exception):
    """The order wants to be tried later: nothing of it is committed."""


class Booking:
    """A listener. ``watch`` is told of its steps."""

    def __init__(self, folder: Path, watch: Watch, *, with_inbox: bool) -> None:
        self._folder = folder
        self._watch = watch
        self._engine = _engine(folder)
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
                row = {
                    "id": order.name or message.id,
                    "partition": message.partition,
                    "tries": message.tries,
                    "at": time.time(),
                }
                connection.execute(_BOOK, row)
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


def make_tables(folder: Path) -> None:
    """That of the effects, and the inbox."""
    engine = _engine(folder)
    with engine.begin() as connection:
        connection.execute(text(_TABLE))
    SqlInbox(engine, GROUP).create()
    engine.dispose()


@contextmanager
def _always(_connection: Connection) -> Iterator[bool]:
    yield True


def _engine(folder: Path) -> Engine:
    engine = create_engine(f"sqlite:///{folder / EFFECTS}", connect_args={"timeout": 60})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        # the machine itself is not switched off in these tests, so the disk need not be waited for
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")

    return engine
