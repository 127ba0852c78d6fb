"""The inbox's table: how it is made, and how its old rows go. Needs the extra ``sql``."""

from datetime import datetime

from sqlalchemy import Column, Connection, Dialect, Index, MetaData, Table, delete, inspect, select, tuple_
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from checkback.sql import mysql
from checkback.sql.columns import exact_text, moment
from checkback.wire.message_id import MAX_BYTES
from checkback.wire.protocol import MAX_GROUP_BYTES


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
