"""The statements on the transaction log's table, for plain connections and Django's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from checkback.dbapi.databases import Dialect, execute, execute_each, exists, fetched
from checkback.dbapi.pruning import PAGE
from checkback.dbapi.states import BLOCKED, COMMITTED


@dataclass(frozen=True)
class LogTable:
    """A table in the words of one database. Nothing here begins or ends a transaction."""

    dialect: Dialect
    name: str

    def insert(self, connection: Any, transaction_id: str, state: str) -> bool:
        """Whether there was no row yet. Waits for a running transaction that has inserted one."""
        marks = ", ".join([self.dialect.placeholder] * 3)
        statement = (
            f"INSERT INTO {self._quoted} (transaction_id, state, recorded_at) "  # noqa: S608  (quoted)
            f"VALUES ({marks}){self.dialect.insert_end}"
        )
        values = [self.dialect.stored_text(transaction_id), state, self.dialect.stored_moment(datetime.now(UTC))]
        return insert_new(self.dialect, connection, statement, values)

    def state(self, connection: Any, transaction_id: str, *, newest: bool = False) -> str | None:
        """Asked for by its value: what a row looks like is the application's choice.

        ``newest`` is for a look after an insert that has met the row, which the transaction's snapshot need not have.
        """
        mark = self.dialect.placeholder
        statement = (
            f"SELECT state FROM {self._quoted} WHERE transaction_id = {mark} AND state = {mark}"  # noqa: S608  (quoted)
            f"{self.dialect.newest if newest else ''}"
        )
        key = self.dialect.stored_text(transaction_id)
        return next((one for one in (COMMITTED, BLOCKED) if exists(connection, statement, [key, one])), None)

    def page(self, connection: Any, after: Any, before: datetime) -> tuple[list[Any], Any]:
        """Look at the next rows after a key: gives the keys of those to delete, and see :data:`~.pruning.Page`.

        Delete in another transaction than this and :meth:`aged` look in: SQLite lets none write that has read what is
        no longer the newest.
        """
        mark = self.dialect.placeholder
        page = fetched(
            connection,
            f"SELECT transaction_id, CASE WHEN recorded_at < {mark} THEN 1 ELSE 0 END AS aged FROM {self._quoted} "  # noqa: S608  (quoted)
            f"WHERE transaction_id > {mark} ORDER BY transaction_id LIMIT {PAGE}",
            [self.dialect.stored_moment(before), self.dialect.stored_text("") if after is None else after],
        )
        return [key for key, aged in page if aged], page[-1][0] if len(page) == PAGE else None

    def aged(self, connection: Any, before: datetime) -> list[Any]:
        """The first keys of that age. Found first: MySQL's DELETE by age would lock each row until its end."""
        found = fetched(
            connection,
            f"SELECT transaction_id FROM {self._quoted} WHERE recorded_at < {self.dialect.placeholder} "  # noqa: S608  (quoted)
            f"ORDER BY transaction_id LIMIT {PAGE}",
            [self.dialect.stored_moment(before)],
        )
        return [row[0] for row in found]

    def delete(self, connection: Any, keys: Sequence[Any]) -> int:
        """Key by key: on MySQL an IN may scan the table, and waits for what others have locked."""
        delete = f"DELETE FROM {self._quoted} WHERE transaction_id = {self.dialect.placeholder}"  # noqa: S608  (quoted)
        return execute_each(connection, delete, [[key] for key in keys]) if keys else 0

    @property
    def _quoted(self) -> str:
        return self.dialect.named(self.name)


def insert_new(dialect: Dialect, connection: Any, statement: str, values: Sequence[Any]) -> bool:
    """Run an INSERT of one row that ends with the dialect's ``insert_end``; whether there was no such row yet."""
    try:
        return execute(connection, statement, values) == 1
    except Exception as error:
        if dialect.is_duplicate(error):
            return False
        raise
