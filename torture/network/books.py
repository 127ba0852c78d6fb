"""What the producers of a run were told of each transaction, against what consumers read."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from checkback import Message
from torture.oracle import Body, Judgement, imprint, judge


class Told(StrEnum):
    """What a producer knows of its transaction. No job runs, so only delivered messages may be readable."""

    OPEN = "open"
    DELIVERED = "delivered"
    LEFT_TO_JOB = "left to the job"
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"
    """The producer does not know after a minute."""


@dataclass
class _Transaction:
    bodies: Mapping[str, Body]
    """By message id."""
    told: Told = Told.OPEN


class Books:
    """Every transaction of a run; threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transactions: dict[str, _Transaction] = {}
        self._delivered: list[str] = []
        """Ids of delivered messages, in the order in which producers were told."""
        self.errors: Counter[str] = Counter()
        """Kinds of errors that kept a transaction from beginning."""

    def begin(self, transaction_id: str, messages: Sequence[Message]) -> None:
        """A half message was written."""
        bodies = [Body(one.topic, one.key, imprint(one.value), tuple(one.headers)) for one in messages]
        several = len(messages) > 1
        named = {f"{transaction_id}#{at}" if several else transaction_id: body for at, body in enumerate(bodies, 1)}
        with self._lock:
            self._transactions[transaction_id] = _Transaction(named)

    def end(self, transaction_id: str, told: Told) -> None:
        """The producer was told."""
        with self._lock:
            transaction = self._transactions[transaction_id]
            transaction.told = told
            if told is Told.DELIVERED:
                self._delivered += transaction.bodies

    @property
    def counts(self) -> dict[str, int]:
        """How many transactions there are of each kind."""
        with self._lock:
            return dict(Counter(one.told.value for one in self._transactions.values()))

    def delivered(self, first: int = 0) -> list[str]:
        """Ids of messages that producers were told are delivered, from the ``first``-th on."""
        with self._lock:
            return self._delivered[first:]

    def judge(self, readable: Mapping[str, Sequence[Body]]) -> Judgement:
        """Compare with what was readable a moment ago; what is left to the job and readable, it would repeat."""
        with self._lock:
            transactions = list(self._transactions.values())
        by_fate: dict[Told, dict[str, Body]] = {told: {} for told in Told}
        for transaction in transactions:
            by_fate[transaction.told].update(transaction.bodies)
        undecided = by_fate[Told.OPEN].keys() | by_fate[Told.UNKNOWN].keys()
        found = judge(by_fate[Told.DELIVERED], readable)
        again = by_fate[Told.LEFT_TO_JOB].keys() & readable.keys()
        return Judgement(
            found.expected,
            found.delivered,
            found.lost,
            undecided=sorted(by_fate[Told.UNKNOWN]),
            repeated=sorted({*found.repeated, *again}),
            leaked=sorted(set(found.leaked) - again - undecided),
            changed=found.changed,
        )

    def torn(self, readable: Mapping[str, Sequence[Body]]) -> list[str]:
        """Ids of transactions of which only some messages are readable, after all has come to rest."""
        with self._lock:
            return sorted(
                name
                for name, one in self._transactions.items()
                if one.bodies.keys() & readable.keys() and not one.bodies.keys() <= readable.keys()
            )
