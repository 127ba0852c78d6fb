"""The load of an outage: a healthy group at a steady rate, timed, and groups that leave transactions open."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from bench.outage_figures import Delivery, Drained
from bench.workload import HALF_PARTITIONS, REAL_TOPIC, produce
from checkback.kafka.connecting import TransportName
from checkback.producing.delivery import DeliveryMode
from checkback.producing.producer import TransactionProducer
from checkback.wire.checks import MAX_BATCH, Announcement
from checkback.wire.protocol import ID, Action, HalfPosition, Headers, Source, Topics, half_headers, op_headers
from checkback.wire.protocol import Message as Outgoing

HEALTHY = "healthy"
RETURNED_TOPIC = "returned"
"""Where the transactions of the other groups are for."""
CHECKED_ONE_IN = 10
"""Of the healthy group's transactions; the others have an op at once."""
_HEARTBEAT_SECONDS = 10.0
_VALUE = bytes(256)
_OPENED_PER_SECOND = 20_000
"""By all groups together: more at once would measure how a flood is read, not what becomes of it."""


def client(bootstrap_servers: str) -> dict[str, Any]:
    """Settings of a producer."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "enable.idempotence": True,
        "log_level": 2,
        "queue.buffering.max.messages": 1_000_000,
    }


class HealthyGroup(threading.Thread):
    """Half message, and as soon as Kafka has it, its op; one in ten has none."""

    def __init__(self, bootstrap_servers: str, per_second: int) -> None:
        super().__init__(name="healthy", daemon=True)
        self.sent: dict[str, float] = {}
        """``time.time()`` by transaction id, of all whose half message is in Kafka."""
        self._topics = Topics()
        self._per_second = per_second
        self._producer = Producer(client(bootstrap_servers))
        self._stopping = threading.Event()

    def run(self) -> None:
        """Send until stopped."""
        start, number = time.monotonic(), 0
        while not self._stopping.is_set():
            while (pause := start + number / self._per_second - time.monotonic()) > 0:
                self._producer.poll(pause)
            self._send(number)
            number += 1
        self._producer.flush()

    def stop(self) -> None:
        """Send no more; all is in Kafka then."""
        self._stopping.set()
        self.join()

    def _send(self, number: int) -> None:
        name = f"{HEALTHY}-{number}"
        self._producer.produce(
            self._topics.half,
            _VALUE,
            b"customer-%d" % number,
            number % HALF_PARTITIONS,
            headers=list(half_headers(name, HEALTHY, REAL_TOPIC, ())),
            on_delivery=partial(self._written, name, time.time()),
        )

    def _written(self, name: str, sent: float, error: KafkaError | None, half: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        self.sent[name] = sent
        if not needs_check(name):
            position = HalfPosition(half.partition() or 0, half.offset() or 0)
            headers = op_headers(name, HEALTHY, position, Action.COMMIT, Source.PRODUCER)
            self._producer.produce(self._topics.op, b"", None, position.partition, headers=list(headers))


class DirectHealthyGroup(HealthyGroup):
    """Likewise, but what has an op is delivered by a lane."""

    def __init__(self, bootstrap_servers: str, per_second: int) -> None:
        super().__init__(bootstrap_servers, per_second)
        self._direct = TransactionProducer(
            bootstrap_servers, HEALTHY, transport=TransportName.CONFLUENT, delivery=DeliveryMode.DIRECT
        )

    def run(self) -> None:
        """Send until stopped."""
        with self._direct:
            super().run()

    def _send(self, number: int) -> None:
        if number % CHECKED_ONE_IN == 0:
            super()._send(number)
            return
        began = time.time()
        half = self._direct.prepare(Outgoing(REAL_TOPIC, _VALUE, b"customer-%d" % number))
        self.sent[half.transaction_id] = began
        self._direct.commit(half)


def healthy_group(delivery: DeliveryMode, bootstrap_servers: str, per_second: int) -> HealthyGroup:
    """The one whose messages are delivered so."""
    kind = DirectHealthyGroup if delivery is DeliveryMode.DIRECT else HealthyGroup
    return kind(bootstrap_servers, per_second)


def needs_check(name: str) -> bool:
    """Whether a transaction of the healthy group has no op."""
    group, _, number = name.rpartition("-")
    return bool(group) and int(number) % CHECKED_ONE_IN == 0


class HealthyReader(threading.Thread):
    """Notes when each of its messages can be read."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="healthy-reader", daemon=True)
        self.read: dict[str, float] = {}
        """``time.time()`` by transaction id."""
        self._consumer = _consumer(bootstrap_servers, REAL_TOPIC)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Read until stopped."""
        while not self._stopping.is_set():
            # one at a time: consume() of several waits for all of them or for its time-out, whichever comes first
            if (message := self._consumer.poll(0.1)) is not None:
                name = dict(message.headers() or [])[ID]
                self.read.setdefault(str(name, "ascii"), time.time())  # type: ignore[arg-type]  # bytes, as we sent it
        self._consumer.close()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        self.join()

    def deliveries(self, sent: Mapping[str, float]) -> list[Delivery]:
        """What was sent and has come."""
        return [
            Delivery(began, self.read[name], needs_check(name)) for name, began in sent.items() if name in self.read
        ]


class ReturnedReader(threading.Thread):
    """Counts the messages of the groups that were away."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="returned-reader", daemon=True)
        self.samples = [Drained(time.time(), 0)]
        self._consumer = _consumer(bootstrap_servers, RETURNED_TOPIC)
        self._stopping = threading.Event()

    @property
    def delivered(self) -> int:
        """Until now."""
        return self.samples[-1].delivered

    def run(self) -> None:
        """Read until stopped."""
        while not self._stopping.is_set():
            found = self._consumer.consume(20_000, timeout=0.25)
            if found:
                self.samples.append(Drained(time.time(), self.delivered + len(found)))
        self._consumer.close()

    def stop(self) -> None:
        """Read no more."""
        self._stopping.set()
        self.join()


def _consumer(bootstrap_servers: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"bench-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def open_transactions(
    bootstrap_servers: str,
    groups: Sequence[str],
    each: int,
    value_bytes: int,
    content: Callable[[int], bytes] = bytes,
) -> int:
    """Write ``each`` half messages of each group, in turn, and no op; how many bytes they have.

    ``content`` makes a value of a size; as it is, one that takes nearly no room where it is compressed.
    """
    producer = Producer({**client(bootstrap_servers), "linger.ms": 20, "batch.size": 262_144})
    topic, written = Topics().half, 0
    start = time.monotonic()
    for number in range(each):
        if (pause := start + number * len(groups) / _OPENED_PER_SECOND - time.monotonic()) > 0:
            producer.poll(pause)
        for index, group in enumerate(groups):
            headers = half_headers(f"{group}-{number}", group, RETURNED_TOPIC, ())
            key, partition = b"customer-%d" % (number % 5000), (number * len(groups) + index) % HALF_PARTITIONS
            value = content(value_bytes)
            written += len(key) + record_bytes(value, headers)
            produce(producer, topic, value, key, partition, headers)
    producer.flush()
    return written


def record_bytes(value: bytes | None, headers: Headers) -> int:
    """Of a record's value and headers, not compressed."""
    return len(value or b"") + sum(len(name) + len(content or b"") for name, content in headers)


class Heartbeats(threading.Thread):
    """Announces endpoints, at once and then every 10 s."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self._topic = Topics().producers
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 2})
        self._ports: dict[str, list[int]] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        """Announce until stopped."""
        while not self._stopping.wait(_HEARTBEAT_SECONDS):
            for group, ports in list(self._ports.items()):
                self.announce_once(group, ports)

    def announce(self, group: str, ports: list[int]) -> None:
        """These endpoints are there from now on."""
        self._ports[group] = ports
        self.announce_once(group, ports)

    def announce_once(self, group: str, ports: Sequence[int]) -> None:
        """These say so, and may never be heard of again."""
        for port in ports:
            said = Announcement(group, str(port), f"http://127.0.0.1:{port}/", 0, MAX_BATCH)
            key, value = said.to_record()
            self._producer.produce(self._topic, value, key, 0)
        self._producer.flush()

    def stop(self) -> None:
        """Announce no more."""
        self._stopping.set()
        self.join()
