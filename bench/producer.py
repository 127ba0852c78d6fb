"""The producer: half message, a local transaction that does nothing, op; beside a plain send of the same client."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import KafkaException, Producer
from confluent_kafka import Message as Report
from kafka import KafkaProducer

from bench.workload import GROUP, REAL_TOPIC, workplace
from checkback.kafka.connecting import TransportName
from checkback.listener import CallableListener, LocalTransactionState
from checkback.producing.delivery import DeliveryMode
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import Message

_ROUNDS = 5
_CALLS = 500
_VALUE = bytes(256)
_WARM_UP_SECONDS = 4.0  # the broker gets quicker for some seconds
_KEY = b"customer-7"


@dataclass(frozen=True)
class ProducerResult:
    """One transport's figures in one mode of delivery; times in ms, medians of one thread."""

    transport: str
    delivery: str
    plain_p50_ms: float
    """A plain send of the same client, acks=all, waited for."""
    transaction_p50_ms: float
    ratio: float
    """Median of the rounds' ratios; each round times both in turn."""
    per_second: dict[int, float] = field(default_factory=dict)
    """Transactions per second with so many threads, their ops written; by a lane, the messages too."""


def measure_producers(threads: tuple[int, ...] = (1, 8, 32), seconds: float = 5.0) -> list[ProducerResult]:
    """Measure both transports on one Kafka, in the modes of delivery that each has, without a job."""
    with workplace() as place:
        return [
            _measured(place.bootstrap_servers, name, mode, threads, seconds)
            for name in TransportName
            for mode in DeliveryMode
            if name is TransportName.CONFLUENT or mode is DeliveryMode.JOB
        ]


def _measured(
    servers: str, name: TransportName, delivery: DeliveryMode, threads: tuple[int, ...], seconds: float
) -> ProducerResult:
    listener = CallableListener(lambda *_: LocalTransactionState.COMMIT, lambda _: LocalTransactionState.COMMIT)
    plain = _plain_kafka_python(servers) if name is TransportName.KAFKA_PYTHON else _plain_confluent(servers)
    with TransactionProducer(servers, GROUP, listener, transport=name, delivery=delivery) as producer:

        def transaction() -> None:
            producer.send_in_transaction(Message(REAL_TOPIC, _VALUE, _KEY))

        # the many threads first: they warm the broker up
        per_second = {
            count: _per_second(producer, transaction, count, seconds) for count in sorted(threads, reverse=True)
        }
        _times(plain, _CALLS)
        _times(transaction, _CALLS)
        rounds = [(_times(plain, _CALLS), _times(transaction, _CALLS)) for _ in range(_ROUNDS)]
    ratio = float(np.median([ours / theirs for theirs, ours in rounds]))
    plain_ms, ours_ms = (float(np.median(column)) for column in zip(*rounds, strict=True))
    return ProducerResult(name, delivery, round(plain_ms, 3), round(ours_ms, 3), round(ratio, 2), per_second)


def _times(call: Callable[[], None], count: int) -> float:
    """Median time of a call, in ms."""
    times = np.empty(count)
    for number in range(count):
        start = time.perf_counter()
        call()
        times[number] = time.perf_counter() - start
    return float(np.median(times)) * 1000


def _per_second(producer: TransactionProducer, call: Callable[[], None], threads: int, seconds: float) -> float:
    counts = [0] * threads
    start = time.monotonic() + _WARM_UP_SECONDS

    def run(number: int) -> None:
        while (now := time.monotonic()) < start + seconds:
            call()
            counts[number] += now >= start

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    producer.flush()
    return round(sum(counts) / (time.monotonic() - start), 0)


def _plain_kafka_python(servers: str) -> Callable[[], None]:
    client = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)

    def send() -> None:
        client.send(REAL_TOPIC, _VALUE, _KEY).get(10)

    return send


def _plain_confluent(servers: str) -> Callable[[], None]:
    client = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 2})

    def send() -> None:
        reports: list[Report] = []
        client.produce(REAL_TOPIC, _VALUE, _KEY, on_delivery=lambda _, message: reports.append(message))
        while not reports:
            client.poll(1.0)
        if error := reports[0].error():
            raise KafkaException(error)

    return send
