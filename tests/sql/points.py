"""A table of points, the effect that the inbox is to have once."""

import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from checkback.consumer import ConsumeResult
from checkback.sql.inbox import SqlInbox
from tests.sql.django_faces import DjangoInboxFace

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"
SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER


class Points:
    """A service with one table of its own beside the inbox."""

    def __init__(self, engine: Engine, *, django: bool = False) -> None:
        self.engine, self._django = engine, django
        suffix = uuid.uuid4().hex[:8]
        self.table = f"points_{suffix}"
        self.inbox_table = "checkback_inbox" if django else f"inbox_{suffix}"
        self.inbox: SqlInbox = self.inbox_of("points")
        self.inbox.create()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {self.table} (given VARCHAR(64))"))

    def inbox_of(self, group: str) -> Any:
        return (
            DjangoInboxFace(self.engine, group)
            if self._django
            else SqlInbox(self.engine, group, table=self.inbox_table)
        )

    def give(self, connection: Any, message: Any) -> None:
        statement = text(f"INSERT INTO {self.table} VALUES (:given)")  # noqa: S608  (ours)
        connection.execute(statement, {"given": str(message)[:64]})

    def take(self, message: Any) -> bool:
        with self.engine.begin() as connection, self.inbox.once(connection, message) as first:
            if first:
                self.give(connection, message)
        return first

    def given(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.scalars(text(f"SELECT given FROM {self.table} ORDER BY 1")))  # noqa: S608  (ours)

    def rows(self) -> list[tuple[str, str]]:
        columns = (self.inbox.table.c.consumer_group, self.inbox.table.c.message_id)
        with self.engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(select(*columns).order_by(*columns))]


class HandlerError(Exception):
    """What a handler may raise."""


def commit(session: Session) -> None:
    session.commit()
