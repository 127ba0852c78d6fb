"""Django's log and inbox, as tests have them that speak SQLAlchemy: on the driver's connection below it.

Checks and handlers have Django's own connections.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from sqlalchemy import Connection, Engine, TextClause, create_engine
from sqlalchemy.orm import Session

from checkback import CheckRequest, LocalTransactionState
from checkback.consumer import ConsumeResult
from checkback.django import DjangoInbox, DjangoTransactionLog
from checkback.sql.inbox import SqlInbox
from tests.django import MYSQL_DRIVER
from tests.django.databases import settings_of
from tests.django.shop import drop_tables, in_place, make_tables
from tests.sql.databases import DJANGO, level_of, url_of

_ALIAS = "default"


@contextmanager
def django_engine(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine of connections as Django opens them, to a database that is ``default`` meanwhile."""
    kind = DJANGO[kind]
    options: Any = {"isolation_level": level_of(kind)} if level_of(kind) else {}
    url = url_of(kind, request, tmp_path)
    if url.get_backend_name() == "mysql":
        url = url.set(drivername=f"mysql+{MYSQL_DRIVER}")
    with in_place(_ALIAS, settings_of(kind, request, tmp_path)):
        drop_tables(_ALIAS)
        make_tables(_ALIAS)
        connections[_ALIAS].close()
        engine = create_engine(url, creator=_driver, **options)
        yield engine
        engine.dispose()


def _driver() -> Any:
    wrapper = connections.create_connection(_ALIAS)
    return wrapper.get_new_connection(wrapper.get_connection_params())


@contextmanager
def _as_djangos(work: Connection | Session) -> Iterator[None]:
    """Have Django work on SQLAlchemy's connection, inside an ``atomic`` that is its transaction."""
    connection = work if isinstance(work, Connection) else work.connection()
    if not connection.in_transaction():
        connection.begin()
    before, wrapper = connections[_ALIAS], connections.create_connection(_ALIAS)
    wrapper.connection = connection.connection.driver_connection
    wrapper.autocommit, wrapper.in_atomic_block = False, True
    connections[_ALIAS] = wrapper
    try:
        yield
    finally:
        connections[_ALIAS] = before
        if wrapper.needs_rollback:  # as the atomic does at its end
            work.rollback()


@contextmanager
def _own() -> Iterator[None]:
    """Django's own connection of this thread, closed afterwards."""
    try:
        yield
    finally:
        connections[_ALIAS].close()


class DjangoFace:
    """The log."""

    def __init__(self, _engine: Engine, chosen: dict[str, Any]) -> None:
        self._log = DjangoTransactionLog(**{name: value for name, value in chosen.items() if name != "table"})

    def create_table(self) -> None:
        """It is there: :func:`django_engine` has made it as ``migrate`` does."""

    def record(self, connection: Connection | Session, transaction_id: str) -> None:
        with _as_djangos(connection):
            self._log.record(transaction_id)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        with _own():
            return self._log.check_local_transaction(request)

    def prune(self, *older_than: Any) -> int:
        with _own():
            return self._log.prune(*older_than)


class DjangoInboxFace:
    """The inbox."""

    def __init__(self, engine: Engine, group: str) -> None:
        self._inbox = DjangoInbox(group)
        self.table = SqlInbox(engine, group).table

    @property
    def passed_over(self) -> int:
        return self._inbox.passed_over

    def create(self) -> None:
        """It is there, likewise."""

    @contextmanager
    def once(self, connection: Connection | Session, message: Any) -> Iterator[bool]:
        with _as_djangos(connection), self._inbox.once(message) as first:
            yield first

    @contextmanager
    def once_each(self, connection: Connection, messages: list[Any]) -> Iterator[list[Any]]:
        """One after the other: Django's has no such thing."""
        new = []
        for message in messages:
            with self.once(connection, message) as first:
                new += [message] * first
        yield new

    def handler(self, handle: Callable[[Any, Any], Any]) -> Callable[[Any], ConsumeResult]:
        def book(message: Any) -> Any:
            return handle(_Work(), message)

        book.__name__ = handle.__name__
        listener = self._inbox.handler(book)

        def listen(message: Any) -> ConsumeResult:
            with _own():
                return listener(message)

        listen.__name__ = listener.__name__
        return listen

    def prune(self, *older_than: Any, **batch: Any) -> int:
        with _own():
            return self._inbox.prune(*older_than, **batch)


class _Work:
    """What a handler has instead of SQLAlchemy's session."""

    def execute(self, statement: TextClause, values: dict[str, Any]) -> None:
        with connections[_ALIAS].cursor() as cursor:
            cursor.execute(re.sub(r":(\w+)", r"%(\1)s", str(statement)), values)
