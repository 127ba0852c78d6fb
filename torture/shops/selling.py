"""A sale as each kind of shop makes it, with Checkback's own block: message and database transaction in one.

A watch is told of each step, of sales only: a check that uses the same engine is none.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import pymysql
from sqlalchemy import create_engine, make_url

from checkback import HalfMessage, Message, TransactionProducer
from checkback.dbapi import DbapiTransactionLog
from checkback.listener import TransactionChecker
from checkback.sql.transaction_log import SqlTransactionLog
from torture.effects.strike import Watch
from torture.shops.steps import Step


@dataclass(frozen=True)
class Sale:
    """A transaction that runs."""

    transaction_id: str
    execute: Callable[[str, Sequence[Any]], object]
    """In the database."""


class Seller(Protocol):
    """A kind of shop."""

    @property
    def log(self) -> TransactionChecker | None:
        """What answers checks; None: a site does."""

    def sale(self, message: Message) -> AbstractContextManager[Sale]:
        """The block."""


class Watching(threading.local):
    """Of this thread: whether it sells, and what it does beside the steps."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.sells = False
        self.pause: Callable[[], object] = lambda: None
        """What the sale does after its half message."""
        self.loses_op = False

    def at(self, step: Step) -> None:
        """It is there."""
        if self.sells:
            self.watch(step)

    def committing(self, commit: Callable[[], object]) -> None:
        """Commit."""
        if self.sells:
            self.watch.under_way(Step.COMMITTING)
        commit()
        self.at(Step.ANSWERED)


def watch_producer(producer: TransactionProducer, watching: Watching) -> TransactionProducer:
    """Have its half messages and ops watched."""
    prepare, end = producer.prepare, producer.end

    def prepared(*message: Any, **options: Any) -> HalfMessage:
        half = prepare(*message, **options)
        watching.at(Step.HALF_WRITTEN)
        watching.pause()
        return half

    def ended(message: HalfMessage, error: BaseException | None) -> Any:
        if error is None:
            watching.at(Step.COMMITTED)
        if watching.loses_op:
            return None
        delivery = end(message, error)
        if error is None:
            watching.at(Step.OP_WRITTEN)
        return delivery

    its = cast("Any", producer)
    its.prepare, its.end = prepared, ended
    return producer


class SqlSeller:
    """With SQLAlchemy."""

    def __init__(self, url: str, producer: TransactionProducer | None, watching: Watching) -> None:
        self._producer = producer
        self._engine = create_engine(url)  # not looked at before use: who gets a connection that was cut finds out
        self.log = SqlTransactionLog(self._engine)
        dialect = cast("Any", self._engine.dialect)
        commit = dialect.do_commit
        dialect.do_commit = lambda connection: watching.committing(partial(commit, connection))

    @contextmanager
    def sale(self, message: Message) -> Iterator[Sale]:
        """A connection of the engine's."""
        producer = cast("TransactionProducer", self._producer)
        with producer.transaction(message, database=self.log.of(self._engine)) as transaction:
            connection = transaction.connection
            yield Sale(
                transaction.transaction_id, lambda statement, row: connection.exec_driver_sql(statement, tuple(row))
            )


class PlainSeller:
    """With PyMySQL."""

    def __init__(self, url: str, producer: TransactionProducer | None, watching: Watching) -> None:
        self._producer = producer
        options = mysql_options(url)

        class Connection(pymysql.connections.Connection):
            def commit(self) -> None:
                watching.committing(super().commit)

        self.log = DbapiTransactionLog(lambda: Connection(**options))

    @contextmanager
    def sale(self, message: Message) -> Iterator[Sale]:
        """Each on a connection of its own."""
        producer = cast("TransactionProducer", self._producer)
        with producer.transaction(message, database=self.log.of()) as transaction:
            cursor = transaction.connection.cursor()
            yield Sale(transaction.transaction_id, cursor.execute)


def mysql_options(url: str) -> dict[str, Any]:
    """For PyMySQL."""
    parts = make_url(url)
    return {"unix_socket": parts.query["unix_socket"], "user": parts.username, "database": parts.database}
