"""What consumers get: all real topics, ``read_committed``, from the beginning, while everything around them fails."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from checkback.protocol import ID
from torture.oracle import Body

_POLL_SECONDS = 0.1


class Consuming(threading.Thread):
    """Collects every message with the time at which it came."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions: int) -> None:
        super().__init__(name="torture-consumer", daemon=True)
        self._bootstrap_servers = bootstrap_servers
        self._topics = topics
        self._partitions = partitions
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._found: defaultdict[str, list[Body]] = defaultdict(list)
        self._came: dict[str, float] = {}

    def run(self) -> None:
        """Consume until stopped."""
        with closing(self._consumer()) as consumer:
            while not self._stopping.is_set():
                for message in consumer.consume(1000, _POLL_SECONDS):
                    if message.error() is None:
                        self._take(message)

    def stop(self) -> None:
        """Stop, and wait for it."""
        self._stopping.set()
        self.join()

    def found(self) -> Mapping[str, Sequence[Body]]:
        """All copies of every message so far, by id."""
        with self._lock:
            return {name: list(copies) for name, copies in self._found.items()}

    def came(self, name: str) -> float | None:
        """When a message came first (``time.time()``), None when it has not."""
        return self._came.get(name)

    def _take(self, message: object) -> None:
        headers = message.headers() or []  # type: ignore[attr-defined]  # confluent_kafka.Message
        names = [value for name, value in headers if name == ID]
        name = names[0].decode() if names else f"without {ID}"
        application = tuple((header, value) for header, value in headers if header != ID)
        body = Body(message.topic(), message.key(), message.value(), application)  # type: ignore[attr-defined]
        with self._lock:
            self._came.setdefault(name, time.time())
            self._found[name].append(body)

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self._bootstrap_servers,
            "group.id": "torture",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 10_000,  # a request that a broker took down with it: not a minute, and again
            "log_level": 0,
        }
        consumer = Consumer(settings)
        # not asked for: a broker does not know at once what has just been created
        consumer.assign(
            [TopicPartition(topic, number, 0) for topic in self._topics for number in range(self._partitions)]
        )
        return consumer
