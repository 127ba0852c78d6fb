"""A shop, whose sales the transaction log is to tell of."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, select, text
from sqlalchemy.orm import Session

from checkback import CheckRequest, HalfPosition, LocalTransactionState
from checkback.dbapi import DbapiTransactionLog
from checkback.sql.transaction_log import SqlTransactionLog
from tests.sql.databases import DJANGO, PLAIN, engine_of
from tests.sql.django_faces import DjangoFace, django_engine


class Shop:
    """An application with one table of its own beside the log."""

    def __init__(self, engine: Engine, face: Callable[[Engine, dict[str, Any]], Any] | None = None) -> None:
        self.engine, self._face = engine, face
        suffix = uuid.uuid4().hex[:8]
        self.orders = f"orders_{suffix}"
        self.log_table = "checkback_transactions" if face is DjangoFace else f"log_{suffix}"
        self.log = self.log_with(100)
        self.log.create_table()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {self.orders} (id VARCHAR(64) PRIMARY KEY)"))

    def log_with(self, lock_timeout_ms: int, prune_after: timedelta | None = None) -> Any:
        options: Any = {"table": self.log_table, "lock_timeout_ms": lock_timeout_ms, "prune_after": prune_after}
        return self._face(self.engine, options) if self._face else SqlTransactionLog(self.engine, **options)

    @property
    def table(self) -> Table:
        return SqlTransactionLog(self.engine, table=self.log_table)._table

    def order(self, connection: Connection | Session, transaction_id: str) -> None:
        connection.execute(text(f"INSERT INTO {self.orders} VALUES (:id)"), {"id": transaction_id})  # noqa: S608  (ours)

    def sell(self, transaction_id: str, statements_before: int = 0) -> None:
        with self.engine.begin() as connection:
            for _ in range(statements_before):
                connection.execute(text("SELECT 1"))
            self.log.record(connection, transaction_id)
            self.order(connection, transaction_id)

    def sell_only(self, transaction_id: str) -> None:
        with self.engine.begin() as connection:
            self.log.record(connection, transaction_id)

    def check(self, transaction_id: str) -> LocalTransactionState:
        return LocalTransactionState(self.log.check_local_transaction(question(transaction_id)))

    def sold(self, transaction_id: str) -> bool:
        query = text(f"SELECT 1 FROM {self.orders} WHERE id = :id")  # noqa: S608  (ours)
        with self.engine.connect() as connection:
            return connection.execute(query, {"id": transaction_id}).first() is not None

    def rows(self) -> list[tuple[str, str]]:
        columns = self.table.c
        query = select(columns.transaction_id, columns.state).order_by(columns.transaction_id)
        with self.engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(query)]


class PlainFace:
    """The log on plain connections, as tests have it that speak SQLAlchemy."""

    def __init__(self, engine: Engine, chosen: dict[str, Any]) -> None:
        where, options = engine.dialect.create_connect_args(engine.url)
        self.log: DbapiTransactionLog[Any] = DbapiTransactionLog(
            lambda: engine.dialect.connect(*where, **options), **chosen
        )
        self.create_table, self.prune = self.log.create_table, self.log.prune
        self.check_local_transaction = self.log.check_local_transaction

    def record(self, connection: Connection | Session, transaction_id: str) -> None:
        if isinstance(connection, Session):
            connection = connection.connection()
        if not connection.in_transaction():
            connection.begin()
        self.log.record(connection.connection.driver_connection, transaction_id)


def question(transaction_id: str) -> CheckRequest:
    return CheckRequest(transaction_id, "orders", "paid", None, b"v", [], HalfPosition(1, 2), 1, 15, 1_000)


@contextmanager
def shop_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """On a database and isolation level of :mod:`tests.sql.databases`."""
    if kind in DJANGO:
        with django_engine(kind, request, tmp_path) as engine:
            yield Shop(engine, DjangoFace)
        return
    engine = engine_of(kind, request, tmp_path)
    yield Shop(engine, PlainFace if kind in PLAIN else None)
    engine.dispose()
