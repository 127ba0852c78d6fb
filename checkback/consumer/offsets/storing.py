"""Where a consumer's offsets are stored, and when they must not be."""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored


class OffsetStore(Protocol):
    """:class:`~checkback.consumer.clients.group_client.GroupClient` is one, at the brokers; an offset file another."""

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What is stored, of those partitions for which something is."""

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Store, and wait until that is done."""


class StoringTurns:
    """Who may store offsets now: the fetch loop, a rebalance, or a transaction that stores them beside its records.

    Of the offsets of two that overlap the older ones may win, and with them what the newer ones have done is lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.unsettled = frozenset[TopicPartition]()
        """Partitions of a transaction whose end is not known: nothing else may store their offsets."""
        self.unanswered = frozenset[TopicPartition]()
        """Partitions whose offsets were to be stored, and Kafka has not said that they are.

        They may yet be, late, or a copy of an acknowledged request may arrive: no transaction stores newer ones before
        :meth:`settle`.
        """
        self._answered = frozenset[TopicPartition]()
        self.waited_for = False
        """Whether a transaction waits for ``unanswered``."""

    @property
    def of_transaction(self) -> bool:
        """Whether it is the turn of a transaction that has waited, so that frequent stores do not hold it up."""
        return self.waited_for and not self.unanswered and not self.unsettled

    def store(self, store: OffsetStore, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Store; raises when Kafka does not acknowledge it."""
        self.unanswered |= offsets.keys()
        self._answered -= offsets.keys()
        store.store(offsets)
        self._answered |= offsets.keys()

    def settle(self) -> None:
        """No copy of an acknowledged request can arrive any more."""
        self.unanswered -= self._answered
        self._answered = frozenset()

    @contextmanager
    def turn(self, seconds: float = -1) -> Iterator[bool]:
        """Take turns; ``False`` when another's takes longer than ``seconds``. Negative: wait as long as it takes."""
        taken = self._lock.acquire(timeout=seconds) if seconds else self._lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._lock.release()
