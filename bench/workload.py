"""What the measurements have in common: a fresh Kafka with topics, settings for it, and ready-made backlogs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from checkback.exceptions import CheckbackError
from checkback.testing import LocalCluster
from checkback.wire import protocol
from checkback.wire.lanes import LaneFact, new_lane, of_lane, stating
from checkback.wire.protocol import Action, HalfPosition, Headers, Source, Topics, half_headers, op_headers
from conf import Settings

REAL_TOPIC = "orders"
GROUP = "orders"
HALF_PARTITIONS = 8
STATE_PARTITIONS = 2
_LIMIT_SECONDS = 600.0
_LOOK_SECONDS = 10.0


@dataclass(frozen=True)
class Workplace:
    """A broker of our own, and settings for a job on it."""

    bootstrap_servers: str
    settings: Settings
    broker: int | None = None
    """Process id of what runs it."""


@contextmanager
def workplace(cores: int = 2, *topics: str) -> Iterator[Workplace]:
    """Start a Kafka with all topics, and more real ones; everything is gone at the end."""
    with LocalCluster([REAL_TOPIC, *topics], partitions=HALF_PARTITIONS, heap_megabytes=1024) as cluster:
        settings = Settings.model_validate(
            {
                "kafka": {"bootstrap_servers": cluster.bootstrap_servers},
                "job": {
                    "checkpoint": str(cluster.folder / "checkpoint"),
                    "master": f"local[{cores}]",
                    "state_partitions": STATE_PARTITIONS,
                },
            }
        )
        yield Workplace(cluster.bootstrap_servers, settings, cluster.kafka_pid)


@dataclass(frozen=True)
class Mix:
    """What becomes of a backlog's transactions, in percent; the rest is committed in turn."""

    rollback: int = 0
    late: int = 0
    """Committed by an op that stands ``LATE`` transactions further back."""
    check: int = 0
    """Have no op: a check decides."""

    def fate(self, number: int) -> str:
        """Of the transaction of that number."""
        at = number % 100
        for name, percent in (("rollback", self.rollback), ("late", self.late), ("check", self.check)):
            if at < percent:
                return name
            at -= percent
        return "commit"

    def count(self, fate: str, transactions: int) -> int:
        """How many of the first ``transactions`` have that fate."""
        return sum(self.fate(number) == fate for number in range(transactions))


ALL_COMMIT, MIXED = Mix(), Mix(rollback=5, late=5, check=1)
LATE = 100_000
"""A batch of a backlog has as many transactions at most, so such an op comes a batch later."""


Sign = Callable[[str, int, tuple[bytes | None, bytes | None], Headers], Headers]
"""Of a topic, a partition, key and value, and headers: those, and perhaps a signature."""


def write_backlog(
    bootstrap_servers: str,
    transactions: int,
    value_bytes: int,
    mix: Mix = ALL_COMMIT,
    *,
    by_lane: bool = False,
    sign: Sign = lambda _topic, _partition, _content, headers: headers,
) -> None:
    """Write transactions, all half messages first, then all ops.

    Each has a value of ``value_bytes`` bytes, a key, and two application headers. The topics must be empty: the
    half messages' offsets are counted, not asked for. ``by_lane``: as producers write them that deliver themselves, so
    their ops say that it was done; the messages are not written.
    """
    topics = Topics()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "log_level": 2,
            "batch.size": 262_144,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value = bytes(value_bytes)
    application = [("trace-id", b"0af7651916cd43dd"), ("content-type", b"application/json")]
    lane = new_lane()
    for number in range(transactions):
        headers = half_headers(_transaction_id(number), GROUP, REAL_TOPIC, application)
        headers = of_lane(headers, lane) if by_lane else headers
        key, partition = b"customer-%d" % (number % 5000), number % HALF_PARTITIONS
        produce(producer, topics.half, value, key, partition, sign(topics.half, partition, (key, value), headers))
    producer.flush()
    for number, action in _ops(transactions, mix):
        half = HalfPosition(number % HALF_PARTITIONS, number // HALF_PARTITIONS)
        headers = op_headers(_transaction_id(number), GROUP, half, action, Source.PRODUCER)
        if by_lane:
            headers = stating(headers, LaneFact.DELIVERED if action is Action.COMMIT else LaneFact.SETTLED)
        produce(producer, topics.op, b"", None, half.partition, sign(topics.op, half.partition, (None, b""), headers))
    producer.flush()


def _ops(transactions: int, mix: Mix) -> Iterator[tuple[int, Action]]:
    for place in range(transactions + LATE):
        if place >= LATE and mix.fate(place - LATE) == "late":
            yield place - LATE, Action.COMMIT
        if place < transactions and (fate := mix.fate(place)) in {"commit", "rollback"}:
            yield place, Action.COMMIT if fate == "commit" else Action.ROLLBACK


def delivered_once(
    bootstrap_servers: str, expected: int, topic: str = REAL_TOPIC, partitions: int = HALF_PARTITIONS
) -> int:
    """Count what a ``read_committed`` consumer finds on the real topic.

    Raises:
        CheckbackError: it is not each of so many transactions, once.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    places = [TopicPartition(topic, number, 0) for number in range(partitions)]
    consumer.assign(places)
    seen: set[object] = set()
    count = 0
    deadline = time.monotonic() + _LIMIT_SECONDS
    try:
        # To the end, and not until so many have come: a copy more would lie behind them.
        while time.monotonic() < deadline and (count < expected or not _at_end(consumer, places)):
            for message in consumer.consume(10_000, timeout=1):
                count += 1
                seen.add(dict(message.headers() or [])[protocol.ID])
    finally:
        consumer.close()
    if not count == len(seen) == expected:
        raise CheckbackError(f"Of {expected} transactions {len(seen)} were delivered, in {count} messages.")
    return count


def _at_end(consumer: Consumer, places: Sequence[TopicPartition]) -> bool:
    """Whether everything that may be read now has been. Before the first message a position is negative."""
    ends = {place.partition: consumer.get_watermark_offsets(place, _LOOK_SECONDS)[1] for place in places}
    return all(
        place.offset >= ends[place.partition] for place in consumer.position(list(places)) if ends[place.partition]
    )


def _transaction_id(number: int) -> str:
    return f"{number:032x}"


def produce(
    producer: Producer,
    topic: str,
    value: bytes,
    key: bytes | None,
    partition: int,
    headers: Sequence[tuple[str, bytes]],
    written: Callable[[KafkaError | None, Message], None] | None = None,
) -> None:
    """Write a record, as soon as the client has room for it; ``written`` hears what became of it."""
    while True:
        try:
            producer.produce(topic, value, key, partition, headers=list(headers), on_delivery=written)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)
