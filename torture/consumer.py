"""What consumers get: all real topics, ``read_committed``, from the beginning, while everything around them fails."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from checkback.wire.protocol import ID
from torture.oracle import Body, imprint

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 10.0
_SILENT_SECONDS = 15.0
"""A consumer that got nothing for that long is replaced: librdkafka's may fall silent when a broker is restarted."""


class Consuming(threading.Thread):
    """Collects every message with the time at which it came."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions: int, name_header: str = ID) -> None:
        """``name_header``: in which messages say what they are named."""
        super().__init__(name="torture-consumer", daemon=True)
        self._bootstrap_servers = bootstrap_servers
        self._name_header = name_header
        # not asked for: a broker does not know at once what has just been created
        self._positions = {(topic, number): 0 for topic in topics for number in range(partitions)}
        self._stopping = threading.Event()
        self._changed = threading.Event()
        """Other topics than those that the present client has: it is replaced."""
        self._lock = threading.Lock()
        self._found: defaultdict[str, list[Body]] = defaultdict(list)
        self._came: dict[str, float] = {}

    def run(self) -> None:
        """Consume until stopped, with one consumer after another; each continues where the one before was."""
        while not self._stopping.is_set():
            with closing(self._consumer()) as consumer:
                self._consume(consumer)

    def stop(self) -> None:
        """Stop, and wait for it."""
        self._stopping.set()
        self.join()

    def also(self, topic: str, partitions: int) -> None:
        """Consume another topic, too, which is there by now."""
        with self._lock:
            self._positions = {**self._positions, **{(topic, number): 0 for number in range(partitions)}}
        self._changed.set()

    def forget(self, topic: str) -> None:
        """Consume it no longer: it is about to be deleted."""
        with self._lock:
            self._positions = {place: at for place, at in self._positions.items() if place[0] != topic}
        self._changed.set()

    def at_end(self) -> bool:
        """Whether all that is readable now has come: Kafka is asked for the end, which silence does not prove."""
        with closing(self._consumer()) as asking:
            return all(
                at >= asking.get_watermark_offsets(TopicPartition(topic, number), _LOOK_SECONDS)[1]
                for (topic, number), at in self._positions.items()
            )

    def found(self) -> Mapping[str, Sequence[Body]]:
        """All copies of every message so far, by id."""
        with self._lock:
            return {name: list(copies) for name, copies in self._found.items()}

    def came(self, name: str) -> float | None:
        """When a message came first (``time.time()``), None when it has not."""
        return self._came.get(name)

    def _consume(self, consumer: Consumer) -> None:
        last = time.monotonic()
        self._changed.clear()
        while not self._stopping.is_set() and time.monotonic() - last < _SILENT_SECONDS and not self._changed.is_set():
            for message in consumer.consume(1000, _POLL_SECONDS):
                if message.error() is None:
                    last = time.monotonic()
                    self._take(message)
            for place in consumer.position([TopicPartition(*place) for place in self._positions]):
                # past the markers of transactions, which are not messages
                self._reached(place.topic, place.partition, place.offset)

    def _take(self, message: Any) -> None:
        headers = message.headers() or []
        names = [value for name, value in headers if name == self._name_header]
        name = names[0].decode() if names else f"without {self._name_header}"
        application = tuple((header, value) for header, value in headers if header != ID)
        body = Body(message.topic(), message.key(), imprint(message.value()), application)
        self._reached(message.topic(), message.partition(), message.offset() + 1)
        with self._lock:
            self._came.setdefault(name, time.time())
            self._found[name].append(body)

    def _reached(self, topic: str, partition: int, offset: int) -> None:
        with self._lock:
            if (topic, partition) in self._positions:
                self._positions[topic, partition] = max(offset, self._positions[topic, partition])

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": "torture",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, number, at) for (topic, number), at in self._positions.items()])
        return consumer
