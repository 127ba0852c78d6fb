"""Latency: from the op's sending to the message's being readable by a ``read_committed`` consumer."""

import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from bench.cost.course import DoneBatch
from bench.cost.figures import Cost, cost_of
from bench.cost.job import costed_job
from bench.workload import GROUP, HALF_PARTITIONS, REAL_TOPIC, workplace
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, half_headers, op_headers

WARM_UP_SECONDS = 60  # batches get quicker for as long: the JIT compiles Spark's planner, too
_DRAIN_SECONDS = 30.0


@dataclass(frozen=True)
class LatencyResult:
    """Times in ms."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    transactions: int
    per_second: int
    warm_up_seconds: int
    cost: Cost


def measure_latency(
    per_second: int = 200, seconds: int = 60, cores: int = 2, warm_up: int = WARM_UP_SECONDS
) -> LatencyResult:
    """Send at a steady rate, after a warm-up at the same rate, and time each message.

    Raises:
        CheckbackError: the job ended, or did not deliver the last messages in half a minute.
    """
    read: dict[object, float] = {}
    with (
        workplace(cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder,
        costed_job(place, Path(folder)) as job,
    ):
        reader = _Reader(place.bootstrap_servers, read)
        reader.start()
        steady = send_steadily(place.bootstrap_servers, per_second, warm_up, seconds)
        job.wait_until(lambda: steady.sent.keys() <= read.keys(), _DRAIN_SECONDS, "delivered the last messages")
        reader.stop()
    times = np.array([1000 * (read[key] - steady.sent[key]) for key in steady.sent])
    p50, p90, p99 = (round(float(value), 1) for value in np.percentile(times, (50, 90, 99)))
    return LatencyResult(p50, p90, p99, len(times), per_second, warm_up, cost_of(steady.batches_in(job.batches)))


@dataclass(frozen=True)
class Steady:
    """A time of sending at a steady rate; ``began`` and ``ended`` are of ``time.time()``."""

    sent: dict[object, float]
    """When each op was sent (s, monotonic), by its transaction id."""
    began: float
    ended: float

    def batches_in(self, batches: Sequence[DoneBatch]) -> Sequence[DoneBatch]:
        """Those that ended in it."""
        return [batch for batch in batches if self.began <= batch.at <= self.ended]


def send_steadily(bootstrap_servers: str, per_second: int, warm_up: int, seconds: int) -> Steady:
    """Send for so many seconds, after a warm-up at the same rate that is in no figure."""
    sent: dict[object, float] = {}
    sender = _Sender(bootstrap_servers)
    sender.send(per_second, warm_up, {})
    began = time.time()
    sender.send(per_second, seconds, sent)
    return Steady(sent, began, time.time())


class _Sender:
    """Half message, and as soon as Kafka has it, its op: by librdkafka, which leaves the cores to the job."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 2})
        self._topics = Topics()

    def send(self, per_second: int, seconds: int, sent: dict[object, float]) -> None:
        """Send at a steady rate; ``sent`` gets each op's time of sending (s, monotonic) under its transaction id."""
        start = time.monotonic()
        for number in range(per_second * seconds):
            while (pause := start + number / per_second - time.monotonic()) > 0:
                self._producer.poll(pause)
            transaction_id = uuid.uuid4().hex
            self._producer.produce(
                self._topics.half,
                bytes(256),
                b"customer-%d" % number,
                number % HALF_PARTITIONS,
                headers=list(half_headers(transaction_id, GROUP, REAL_TOPIC, ())),
                on_delivery=partial(self._commit, transaction_id, sent),
            )
        self._producer.flush()

    def _commit(self, transaction_id: str, sent: dict[object, float], error: KafkaError | None, half: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        position = HalfPosition(half.partition() or 0, half.offset() or 0)
        headers = op_headers(transaction_id, GROUP, position, Action.COMMIT, Source.PRODUCER)
        sent[transaction_id.encode()] = time.monotonic()
        self._producer.produce(self._topics.op, b"", None, position.partition, headers=list(headers))


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
