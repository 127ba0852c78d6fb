"""Latency: from the op's sending to the message's being readable by a ``read_committed`` consumer."""

import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from bench.cost.figures import Cost, cost_of
from bench.cost.job import CostedJob, costed_job
from bench.workload import GROUP, HALF_PARTITIONS, REAL_TOPIC, workplace
from checkback.producing.delivery import DeliveryMode
from checkback.producing.producer import TransactionProducer
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, half_headers, op_headers
from checkback.wire.protocol import Message as Outgoing

_DRAIN_SECONDS = 30.0
_A_THREAD = 100
"""Transactions a second that one thread of a direct producer sends: each half message is waited for."""
_MOST_THREADS = 32


@dataclass(frozen=True)
class LatencyResult:
    """Times in ms."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    transactions: int
    per_second: int
    warm_up_seconds: int
    batch_interval_ms: int
    percentiles_ms: list[float]
    """From the 0th, the least, to the 100th."""
    cost: Cost


@dataclass(frozen=True)
class Rate:
    """For how long to send how much; what is sent in the warm-up is in no figure."""

    per_second: int = 200
    warm_up_seconds: int = 60
    """Batches get quicker for as long: the JIT compiles Spark's planner, too."""
    seconds: int = 60


def measure_latency(
    rate: Rate = Rate(), cores: int = 2, delivery: DeliveryMode = DeliveryMode.JOB, batch_interval_ms: int = 0
) -> LatencyResult:
    """Send at a steady rate, after a warm-up at the same rate, and time each message.

    ``batch_interval_ms``: ``job.batch_interval``.

    With ``DeliveryMode.DIRECT`` the sender is a ``TransactionProducer`` that delivers by its lane, beside the job.

    Raises:
        CheckbackError: the job ended, or did not deliver the last messages in half a minute.
    """
    with (
        workplace(cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder,
        costed_job(place, Path(folder), settings=_interval(batch_interval_ms)) as job,
    ):
        result = latency_of(job, place.bootstrap_servers, rate, delivery)
        return replace(result, batch_interval_ms=batch_interval_ms)


def latency_of(
    job: CostedJob, bootstrap_servers: str, rate: Rate, delivery: DeliveryMode = DeliveryMode.JOB
) -> LatencyResult:
    """Likewise, of a job that runs; its topics may have been used."""
    with ExitStack() as open_while_measured:
        sender: _AnySender
        if delivery is DeliveryMode.DIRECT:
            direct = TransactionProducer(
                bootstrap_servers, GROUP, transport="confluent-kafka", delivery=DeliveryMode.DIRECT
            )
            sender = _DirectSender(open_while_measured.enter_context(direct))
        else:
            sender = _Sender(bootstrap_servers)
        return _timed(job, sender, bootstrap_servers, rate)


def _timed(job: CostedJob, sender: "_AnySender", bootstrap_servers: str, rate: Rate) -> LatencyResult:
    sent: dict[object, float] = {}
    reader = _Reader(bootstrap_servers)
    reader.start()
    sender.send(rate.per_second, rate.warm_up_seconds, {})
    began = time.time()
    sender.send(rate.per_second, rate.seconds, sent)
    ended = time.time()
    job.wait_until(lambda: sent.keys() <= reader.read.keys(), _DRAIN_SECONDS, "delivered the last messages")
    reader.stop()
    times = np.array([1000 * (reader.read[key] - at) for key, at in sent.items()])
    percentiles = [round(float(value), 1) for value in np.percentile(times, range(101))]
    p50, p90, p99 = (percentiles[at] for at in (50, 90, 99))
    cost = cost_of([batch for batch in job.batches if began <= batch.at <= ended])
    return LatencyResult(p50, p90, p99, len(times), rate.per_second, rate.warm_up_seconds, 0, percentiles, cost)


def _interval(batch_interval_ms: int) -> dict[str, str]:
    # other commits, which this may be asked to run, do not know the setting
    return {"JOB__BATCH_INTERVAL": f"{batch_interval_ms}ms"} if batch_interval_ms else {}


class _AnySender(Protocol):
    def send(self, per_second: int, seconds: int, sent: dict[object, float]) -> None:
        """Send at a steady rate; ``sent`` gets each decision's time (s, monotonic) under its transaction id."""


class _DirectSender:
    """Half message, and as soon as Kafka has it, its commit, by threads that share a producer."""

    def __init__(self, producer: TransactionProducer) -> None:
        self._producer = producer

    def send(self, per_second: int, seconds: int, sent: dict[object, float]) -> None:
        """See :class:`_AnySender`."""
        count = min(max(1, per_second // _A_THREAD), _MOST_THREADS)
        start = time.monotonic()
        turns = [
            [start + number / per_second for number in range(one, per_second * seconds, count)] for one in range(count)
        ]
        threads = [threading.Thread(target=self._send_at, args=(times, sent)) for times in turns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._producer.flush()

    def _send_at(self, times: list[float], sent: dict[object, float]) -> None:
        for number, at in enumerate(times):
            if (pause := at - time.monotonic()) > 0:
                time.sleep(pause)
            half = self._producer.prepare(Outgoing(REAL_TOPIC, bytes(256), b"customer-%d" % number))
            sent[half.transaction_id.encode()] = time.monotonic()
            self._producer.commit(half)


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
    """Notes when a message is there to be read (s, monotonic), by its transaction id."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        self.read: dict[object, float] = {}
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "bench",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([REAL_TOPIC])

    def run(self) -> None:
        while not self._stopping.is_set():
            # one at a time: consume() of several waits for all of them or for its time-out, whichever comes first
            if (message := self._consumer.poll(0.1)) is not None:
                self.read.setdefault(dict(message.headers() or [])[protocol.ID], time.monotonic())
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()
