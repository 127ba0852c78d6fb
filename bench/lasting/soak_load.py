"""The load of a soak: a steady rate with something of everything, and a consumer that has some of it tried again."""

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bench.outage_load import client
from bench.workload import GROUP, HALF_PARTITIONS, REAL_TOPIC, Mix
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.wire.protocol import (
    Action,
    HalfPosition,
    Headers,
    Source,
    Topics,
    TransactionOptions,
    half_headers,
    op_headers,
)

MIX = Mix(rollback=5, late=5, check=1)
DELAYED_ONE_IN, RETRIED_ONE_IN = 50, 100
"""Of all transactions: those that are committed for later, and those that the consumer wants again."""
LATE_SECONDS = 3.0
DELAY_MS = 10_000
_PREFIX = "soak-"
_VALUE = bytes(256)


class SoakLoad(threading.Thread):
    """Half message, and as soon as Kafka has it, its op; or later, or never. Each goes by its number."""

    def __init__(self, bootstrap_servers: str, per_second: int) -> None:
        super().__init__(name="soak-load", daemon=True)
        self.sent = 0
        self._topics = Topics()
        self._per_second = per_second
        self._producer = Producer({**client(bootstrap_servers), "linger.ms": 5})
        self._late: deque[tuple[float, Callable[[], None]]] = deque()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Send until stopped."""
        start = time.monotonic()
        while not self._stopping.is_set():
            while (pause := start + self.sent / self._per_second - time.monotonic()) > 0:
                self._producer.poll(pause)
            self._begin(self.sent)
            self.sent += 1
            if self._late and self._late[0][0] < time.monotonic():
                self._late.popleft()[1]()
        self._producer.flush()
        for _, end in self._late:
            end()
        self._producer.flush()

    def stop(self) -> None:
        """Send no more; all is in Kafka then."""
        self._stopping.set()
        self.join()

    def _begin(self, number: int) -> None:
        later = TransactionOptions(deliver_at_ms=time.time_ns() // 1_000_000 + DELAY_MS)
        headers = half_headers(_name(number), GROUP, REAL_TOPIC, options=later if _is_delayed(number) else None)
        key = b"customer-%d" % (number % 5000)
        self._produce(self._topics.half, _VALUE, key, number % HALF_PARTITIONS, headers, partial(self._end, number))

    def _end(self, number: int, error: KafkaError | None, half: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        fate = MIX.fate(number)
        if fate == "check":
            return
        position = HalfPosition(half.partition() or 0, half.offset() or 0)
        action = Action.ROLLBACK if fate == "rollback" else Action.COMMIT
        headers = op_headers(_name(number), GROUP, position, action, Source.PRODUCER)
        end = partial(self._produce, self._topics.op, b"", None, position.partition, headers)
        if fate == "late":
            self._late.append((time.monotonic() + LATE_SECONDS, end))
        else:
            end()

    def _produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int,
        headers: Headers,
        written: Callable[[KafkaError | None, Message], None] | None = None,
    ) -> None:
        self._producer.produce(topic, value, key, partition, headers=list(headers), on_delivery=written)


class Receipts:
    """What the consumer has taken, by number; one in ``RETRIED_ONE_IN`` only when it comes again."""

    def __init__(self) -> None:
        self.tried_again = 0
        self._times = bytearray()
        self._lock = threading.Lock()

    def take(self, message: ReceivedMessage) -> ConsumeResult:
        """A listener."""
        number = int(message.id.removeprefix(_PREFIX))
        with self._lock:
            if number % RETRIED_ONE_IN == RETRIED_ONE_IN - 1 and not message.tries:
                self.tried_again += 1
                return ConsumeResult.LATER
            if number >= len(self._times):
                self._times.extend(bytes(number + 1 + 100_000 - len(self._times)))
            self._times[number] += 1
        return ConsumeResult.SUCCESS

    def compared(self, sent: int) -> tuple[int, int, int]:
        """Of so many first ones: taken, missing, and too many (again, or rolled back)."""
        with self._lock:
            times = np.frombuffer(bytes(self._times[:sent]).ljust(sent, b"\0"), dtype=np.uint8)
        due = np.resize(np.array([MIX.fate(number) != "rollback" for number in range(100)]), sent)
        taken = int((due & (times > 0)).sum())
        return taken, int(due.sum()) - taken, int(times.sum()) - taken


def _is_delayed(number: int) -> bool:
    return number % DELAYED_ONE_IN == DELAYED_ONE_IN // 2  # none of those that the mix has other plans for


def _name(number: int) -> str:
    return f"{_PREFIX}{number}"
