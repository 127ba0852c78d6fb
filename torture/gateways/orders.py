"""What gateways' clients sell, by names of their own, and what they send again at the other gateway.

A client knows its order by a header, not by the transaction id: that is the gateway's, and two half messages of one
order have one each.
"""

import itertools
import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import text

from checkback import HalfMessage, Message
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, Headers
from torture import shop
from torture.gateways.schedule import Kind
from torture.lanes.producer import WholeBooks

GROUP = "gateways"
NAME = "order"
"""A header of all messages."""
_SENT_AGAIN = "CREATE TABLE IF NOT EXISTS sent_again (name TEXT PRIMARY KEY)"


def name_of(headers: Headers) -> str:
    """The order that a message belongs to, and which of its messages it is; empty when it does not say."""
    return dict(headers).get(NAME, b"").decode(errors="replace")


class OrderBooks(WholeBooks):
    """Of one process: what has committed, and what it is about to."""

    def __init__(self, folder: Path, whole: AbstractContextManager[Any]) -> None:
        super().__init__(folder, GROUP, whole)
        self.under_way = set[str]()
        """Orders that this process has begun, and has not ended."""
        with self._engine.begin() as connection:
            connection.execute(text(_SENT_AGAIN))

    def names(self, transaction_id: str, messages: Sequence[Message]) -> list[str]:
        """By their header."""
        del transaction_id
        return [name_of(message.headers) for message in messages]

    def note_sent_again(self, name: str) -> None:
        """An order's half message is about to be sent to another gateway, too."""
        with self._whole, self._engine.begin() as connection:
            connection.execute(text("INSERT OR IGNORE INTO sent_again VALUES (:name)"), {"name": name})

    def answer(self, name: str) -> LocalTransactionState:
        """What became of an order; *unknown* while this process is at it."""
        order = name.partition("#")[0]
        if not order or order in self.under_way:
            return LocalTransactionState.UNKNOWN
        asked = CheckRequest(order, GROUP, "", None, None, (), HalfPosition(0, 0), 1, 1, 0)
        state: LocalTransactionState = self.check_local_transaction(asked)
        return state


class Seller(shop.Shop):
    """Sells through gateways, by HTTP."""

    kind = Kind.HTTP

    def __init__(self, books: OrderBooks, producer: shop.Producing, topics: Sequence[str], seed: int) -> None:
        super().__init__(books, producer, topics, seed)
        self._books = books
        self._run = secrets.token_hex(4)
        self._orders = itertools.count()
        self._order, self._messages = "", 0

    def send_one(self) -> None:
        """One order."""
        self._order, self._messages = f"{self.kind}-{self._run}-{next(self._orders)}", 0
        self._books.under_way.add(self._order)
        try:
            super().send_one()
        finally:
            self._books.under_way.discard(self._order)

    def _message(self) -> Message:
        return self._named(super()._message())

    def _named(self, message: Message) -> Message:
        self._messages += 1
        name = self._order if self._messages == 1 else f"{self._order}#{self._messages}"
        return message._replace(headers=[*message.headers, (NAME, name.encode())])


def half_of(name: str, messages: Sequence[Message]) -> HalfMessage:
    """As the shop knows it: by its own name."""
    first = messages[0]
    return HalfMessage(name, first.topic, first.value, first.key, first.headers, HalfPosition(0, 0))
