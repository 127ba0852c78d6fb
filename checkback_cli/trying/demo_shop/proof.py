"""Compares the database with what a ``read_committed`` consumer finds in the real topic."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.wire import protocol


@dataclass(frozen=True)
class Proof:
    """What was found."""

    in_database: int
    delivered: int
    missing: int
    """In the database, but not delivered."""
    invented: int
    """Delivered, but not in the database."""
    repeated: int
    """Delivered more than once."""
    altered: int
    """Delivered with other bytes."""

    @property
    def holds(self) -> bool:
        """Exactly the orders in the database were delivered, each once and unaltered."""
        return not (self.missing or self.invented or self.repeated or self.altered)


def prove(bootstrap_servers: str, topic: str, in_database: Mapping[str, bytes]) -> Proof:
    """Read the whole topic and compare."""
    delivered: Counter[str] = Counter()
    altered = 0
    for transaction_id, value in _read_all(bootstrap_servers, topic):
        delivered[transaction_id] += 1
        altered += transaction_id in in_database and in_database[transaction_id] != value
    return Proof(
        in_database=len(in_database),
        delivered=delivered.total(),
        missing=len(in_database.keys() - delivered.keys()),
        invented=len(delivered.keys() - in_database.keys()),
        repeated=sum(count > 1 for count in delivered.values()),
        altered=altered,
    )


def _read_all(bootstrap_servers: str, topic: str) -> list[tuple[str, bytes]]:
    with closing(reading_consumer(bootstrap_servers)) as consumer:
        records = records_to_end(consumer, topic)
        return [(dict(record.headers)[protocol.ID].decode(), record.value) for record in records]
