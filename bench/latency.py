"""Latency: from the op's sending to the message's being readable by a ``read_committed`` consumer."""

import threading
import time
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Consumer

from bench.workload import GROUP, REAL_TOPIC, workplace
from checkback import protocol
from checkback.producer import TransactionProducer
from streaming import TransactionJob

_WARM_UP_SECONDS = 30
_DRAIN_SECONDS = 30.0


@dataclass(frozen=True)
class LatencyResult:
    """Times in ms."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    transactions: int
    per_second: int


def measure_latency(per_second: int = 200, seconds: int = 60, cores: int = 2) -> LatencyResult:
    """Send at a steady rate, after a warm-up at the same rate, and time each message."""
    sent: dict[object, float] = {}
    read: dict[object, float] = {}
    with workplace(cores) as place, TransactionJob(place.settings) as job:
        reader = _Reader(place.bootstrap_servers, read)
        reader.start()
        with TransactionProducer(place.bootstrap_servers, GROUP) as producer:
            _send(producer, per_second, _WARM_UP_SECONDS, {})
            _send(producer, per_second, seconds, sent)
            producer.flush()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while sent.keys() - read.keys() and time.monotonic() < deadline:
            job.wait(1)
        reader.stop()
    times = np.array([1000 * (read[key] - sent[key]) for key in sent.keys() & read.keys()])
    p50, p90, p99 = (round(float(value), 1) for value in np.percentile(times, (50, 90, 99)))
    return LatencyResult(p50, p90, p99, len(times), per_second)


def _send(producer: TransactionProducer, per_second: int, seconds: int, sent: dict[object, float]) -> None:
    start = time.monotonic()
    for number in range(per_second * seconds):
        time.sleep(max(0.0, start + number / per_second - time.monotonic()))
        message = producer.prepare(REAL_TOPIC, bytes(256), b"customer-%d" % number)
        sent[message.transaction_id.encode()] = time.monotonic()
        producer.commit(message)


class _Reader(threading.Thread):
    def __init__(self, bootstrap_servers: str, read: dict[object, float]) -> None:
        super().__init__(daemon=True)
        self._read = read
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "bench",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.subscribe([REAL_TOPIC])

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, timeout=0.01):
                self._read.setdefault(dict(message.headers() or [])[protocol.ID], time.monotonic())
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()
