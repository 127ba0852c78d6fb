"""Compares the database with what a ``read_committed`` consumer finds in the real topic."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import KafkaConsumer, TopicPartition

from checkback import protocol


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
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    found = []
    try:
        places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=200).values():
                found += [(dict(record.headers)[protocol.ID].decode(), record.value) for record in records]
    finally:
        consumer.close()
    return found
