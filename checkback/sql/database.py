"""What the transaction log and the inbox need to know of the databases they work in. Needs the extra ``sql``."""

from collections.abc import Callable

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from checkback.exceptions import ConfigurationError

# ON CONFLICT DO NOTHING: a plain insert that fails would end PostgreSQL's transaction before we could look why, and
# a savepoint around it would be the outermost one under pysqlite, whose release commits.
INSERTS: dict[str, Callable[[Table], postgresql.Insert | sqlite.Insert]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}
"""The databases we work in, with the insert of each that can pass over a row that is there."""


def refuse_autocommit(connection: Connection, what: str) -> None:
    """Make sure that a row written now is committed, or not, with all else of the caller's database transaction.

    ``what`` the row would not belong to, for the message.

    Raises:
        ConfigurationError: the connection commits each statement by itself.
    """
    if not connection.in_transaction():
        connection.begin()  # as the insert would: where BEGIN is sent by an event, the driver knows only then
    # the driver's own, and what SQLAlchemy puts around one of asyncio's
    drivers = (connection.connection.driver_connection, connection.connection.dbapi_connection)
    autocommit = any(getattr(driver, "autocommit", False) is True for driver in drivers)  # sqlite3 has -1 by default
    if connection.dialect.name == "sqlite":
        by_itself = autocommit or getattr(drivers[0], "isolation_level", "") is None
        autocommit = by_itself and not getattr(drivers[0], "in_transaction", True)
    if autocommit:
        raise ConfigurationError(
            f"This connection is in autocommit mode, so the record would not belong to {what}: open a database "
            "transaction."
        )
