"""A shop with a real SQLite database, which sends each order through :class:`TransactionProducer`."""

import contextlib
import json
import random
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from checkback import Message
from checkback.listener import HalfMessage, LocalTransactionState
from checkback.producing.producer import TransactionProducer
from checkback.wire.checks import CheckRequest

TOPIC = "orders"
GROUP = "shop"


class Fate(StrEnum):
    """What happens to an order on its way."""

    COMMITS = "commit"
    ROLLS_BACK = "roll back"
    CRASHES_AFTER_COMMIT = "crash after their database commit"
    CRASHES_BEFORE_COMMIT = "crash before it"


_SHARES = {
    Fate.COMMITS: 0.85,
    Fate.ROLLS_BACK: 0.08,
    Fate.CRASHES_AFTER_COMMIT: 0.05,
    Fate.CRASHES_BEFORE_COMMIT: 0.02,
}


@dataclass(frozen=True)
class ShopOrder:
    """An order, and what will happen to it."""

    number: int
    customer: str
    cents: int
    fate: Fate

    def message(self) -> bytes:
        """The message other services get."""
        return json.dumps({"order": self.number, "customer": self.customer, "cents": self.cents}).encode()


class Crash(BaseException):
    """The process dies here: like a real one it passes every handler, and no op is written."""


def make_orders(count: int, seed: int) -> list[ShopOrder]:
    """Orders with their fates, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  (a demo's dice)
    fates = chance.choices(list(_SHARES), weights=list(_SHARES.values()), k=count)
    return [
        ShopOrder(number, f"customer-{chance.randrange(100)}", chance.randrange(100, 100_000), fate)
        for number, fate in enumerate(fates)
    ]


class Shop:
    """The application: its local transactions, and its answers to checks."""

    def __init__(self, database: Path) -> None:
        self._database = database
        with self._connect() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "CREATE TABLE orders (transaction_id TEXT PRIMARY KEY, number INTEGER, message BLOB NOT NULL)"
            )

    def place(self, producer: TransactionProducer, order: ShopOrder) -> None:
        """Send one order; a crash loses the op, as the death of a process would."""
        with contextlib.suppress(Crash):  # the rest of the shop continues, as other processes would
            producer.send_in_transaction(Message(TOPIC, order.message(), order.customer.encode()), arg=order)

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        """Write the order into the database."""
        order: ShopOrder = arg
        if order.fate is Fate.CRASHES_BEFORE_COMMIT:
            raise Crash
        if order.fate is Fate.ROLLS_BACK:
            return LocalTransactionState.ROLLBACK
        with self._connect() as connection:
            connection.execute(
                "INSERT INTO orders VALUES (?, ?, ?)", (message.transaction_id, order.number, message.value)
            )
        if order.fate is Fate.CRASHES_AFTER_COMMIT:
            raise Crash
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """The database knows: what is in it has happened."""
        with self._connect() as connection:
            found = connection.execute(
                "SELECT 1 FROM orders WHERE transaction_id = ?", (request.transaction_id,)
            ).fetchone()
        return LocalTransactionState.COMMIT if found else LocalTransactionState.ROLLBACK

    def orders(self) -> dict[str, bytes]:
        """Messages of the orders in the database, by transaction id."""
        with self._connect() as connection:
            return dict(connection.execute("SELECT transaction_id, message FROM orders"))

    def _connect(self) -> sqlite3.Connection:
        # one for each call: the check endpoint's threads and the shop's own share nothing
        return sqlite3.connect(self._database, timeout=30)
