"""Columns whose values are told apart exactly, on whatever database, and the inbox's table. Needs the extra ``sql``."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Dialect,
    Index,
    MetaData,
    String,
    Table,
    TypeDecorator,
    delete,
    inspect,
    select,
    tuple_,
)
from sqlalchemy.dialects import mysql as mysql_dialect
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement
from sqlalchemy.types import TypeEngine

from checkback.sql import mysql
from checkback.wire.message_id import MAX_BYTES
from checkback.wire.protocol import MAX_GROUP_BYTES

_MYSQL = ("mysql", "mariadb")


class ExactText(TypeDecorator[str]):
    """Text of which each byte counts: to MySQL's collations ``A`` is ``a``, and to most of them ``a`` with a blank.

    The length is checked here, since a server without strict mode cuts off what is longer, which is another's id then.
    """

    impl = mysql_dialect.VARBINARY
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002  (SQLAlchemy's)
        """As UTF-8, whatever the connection speaks."""
        encoded = None if value is None else value.encode()
        if encoded is not None and len(encoded) > self.length:
            raise ValueError(f"{value!r:.80} has {len(encoded)} bytes; the column takes {self.length}.")
        return encoded

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002  (SQLAlchemy's)
        """Back to text."""
        return value.decode() if isinstance(value, bytes | bytearray) else value


class Moment(TypeDecorator[datetime]):
    """A time in UTC with microseconds: MySQL's ``DATETIME`` has no zone, and rounds to seconds where it is not told."""

    impl = mysql_dialect.DATETIME
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(fsp=6)

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002  (SQLAlchemy's)
    ) -> datetime | None:
        """Without its zone: MySQL would turn one that it is told into the session's."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002  (SQLAlchemy's)
    ) -> datetime | None:
        """With its zone."""
        return None if value is None else value.replace(tzinfo=UTC)


def exact_text(max_bytes: int) -> TypeEngine[str]:
    """For a key."""
    return String(max_bytes).with_variant(ExactText(max_bytes), *_MYSQL)


def moment() -> TypeEngine[datetime]:
    """For an age."""
    return DateTime(timezone=True).with_variant(Moment(), *_MYSQL)


def inbox_table(name: str, metadata: MetaData) -> Table:
    """The table, with an index by age."""
    table = Table(
        name,
        metadata,
        Column("consumer_group", exact_text(MAX_GROUP_BYTES), primary_key=True),
        Column("message_id", exact_text(MAX_BYTES), primary_key=True),
        Column("received_at", moment(), nullable=False),
        **mysql.TABLE_OPTIONS,
    )
    Index(f"{name}_by_age", table.c.consumer_group, table.c.received_at)
    return table


def ddl(table: Table, dialect: Dialect) -> str:
    """The statements that make it. MySQL has no IF NOT EXISTS for an index."""
    passes_over = dialect.name not in mysql.NAMES
    made: list[DDLElement] = [
        CreateTable(table, if_not_exists=True),
        *(CreateIndex(one, if_not_exists=passes_over) for one in table.indexes),
    ]
    return "".join(f"{str(one.compile(dialect=dialect)).strip()};\n" for one in made)


def create(connection: Connection, table: Table) -> None:
    """Make it unless it is there."""
    connection.execute(CreateTable(table, if_not_exists=True))
    if connection.dialect.name in mysql.NAMES:
        mysql.refuse_unsafe_table(connection, table)
        there = {one["name"] for one in inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in there:
                connection.execute(CreateIndex(index))
        return
    for index in table.indexes:
        connection.execute(CreateIndex(index, if_not_exists=True))


def prune_batch(connection: Connection, table: Table, group: str, before: datetime, batch: int) -> int:
    """Delete so many of a group's rows that were received before then; gives their number."""
    columns = table.c
    ours = (columns.consumer_group == group, columns.received_at < before)
    # those that another process is pruning are left to it; SQLite has one that writes at a time
    if connection.dialect.name in mysql.NAMES:  # whose DELETE has no LIMIT in a subquery, nor one of its own table
        chosen = select(columns.message_id).where(*ours).limit(batch).with_for_update(skip_locked=True)
        found = connection.scalars(chosen).all()
        mysql.delete_each(connection, table.delete().where(columns.consumer_group == group), columns.message_id, found)
        return len(found)
    key = (columns.consumer_group, columns.message_id)
    locked = select(*key).where(*ours).limit(batch).with_for_update(skip_locked=True)
    return connection.execute(delete(table).where(tuple_(*key).in_(locked))).rowcount
