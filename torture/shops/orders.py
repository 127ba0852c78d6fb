"""The orders that shops have committed, as their databases say: a row each, of the transaction that sends the message.

``at`` is by the clock of the shop, before the commit.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Column, Double, Engine, LargeBinary, MetaData, String, Table, Text, create_engine, select

from checkback import Message
from checkback.sql.transaction_log import SqlTransactionLog
from torture.oracle import Body
from torture.sent import body_of, row_of
from torture.shops.kinds import Kind

ORDERS = Table(
    "orders",
    MetaData(),
    Column("id", String(80), primary_key=True),
    Column("shop", String(40), nullable=False),
    Column("topic", String(80), nullable=False),
    Column("message_key", LargeBinary),
    Column("value", LargeBinary(70_000)),
    Column("headers", Text, nullable=False),
    Column("at", Double, nullable=False, index=True),
)
SHELF = Table("shelf", ORDERS.metadata, Column("id", String(80), primary_key=True))
"""For deadlocks."""
INSERT = f"INSERT INTO orders ({', '.join(ORDERS.c.keys())}) VALUES ({', '.join(['%s'] * len(ORDERS.c))})"  # noqa: S608  (ours)
"""As all drivers take it that there are here."""
_LATE_SECONDS = 45.0
"""How long a row may be committed after its ``at``."""


def values_of(kind: Kind, transaction_id: str, message: Message) -> tuple[Any, ...]:
    """What :data:`INSERT` takes."""
    row = row_of(transaction_id, message)
    row |= {"shop": kind.value, "message_key": row["key"]}
    return tuple(row[name] for name in ORDERS.c.keys())  # noqa: SIM118  (of columns)


def make_tables(url: str) -> None:
    """The log's, and ours."""
    engine = create_engine(url)
    SqlTransactionLog(engine).create_table()
    ORDERS.metadata.create_all(engine)
    engine.dispose()


class Books:
    """Both databases, read on and on; while they answer."""

    def __init__(self, urls: Collection[str]) -> None:
        self._engines = [create_engine(url, pool_pre_ping=True) for url in urls]
        self._seen = dict.fromkeys(range(len(self._engines)), 0.0)
        self.sent: dict[str, Body] = {}
        self.by_shop: Counter[str] = Counter()

    def read(self, *, whole: bool = False) -> Mapping[str, Body]:
        """All orders by now, by message id. ``whole``: whatever time they say they are of."""
        for number, engine in enumerate(self._engines):
            after = 0.0 if whole else self._seen[number] - _LATE_SECONDS
            self._read(engine, number, after)
        return self.sent

    def sent_after(self, moment: float, kind: Kind) -> list[str]:
        """Ids of some orders of a shop whose work began after a moment."""
        wanted = select(ORDERS.c.id).where(ORDERS.c.at > moment, ORDERS.c.shop == kind.value).limit(300)
        return [name for engine in self._engines for name in self._column(engine, wanted)]

    def close(self) -> None:
        """Close its connections."""
        for engine in self._engines:
            engine.dispose()

    def _read(self, engine: Engine, number: int, after: float) -> None:
        with engine.connect() as connection:
            for row in connection.execute(select(ORDERS).where(ORDERS.c.at > after)):
                self._seen[number] = max(self._seen[number], row.at)
                if row.id not in self.sent:
                    self.by_shop[row.shop] += 1
                    self.sent[row.id] = body_of(row, row.message_key)

    @staticmethod
    def _column(engine: Engine, wanted: Any) -> list[str]:
        with engine.connect() as connection:
            return list(connection.scalars(wanted))
