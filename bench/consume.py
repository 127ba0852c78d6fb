"""A push consumer with a listener of a millisecond, beside what its threads could do, and beside the client alone."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.workload import HALF_PARTITIONS, REAL_TOPIC, produce, workplace
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt
from checkback.wire.protocol import ID

_VALUE = bytes(256)
_FAILING_EVERY = 10
_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class ConsumerResult:
    """Messages per second of one process."""

    client_alone: float
    """What the client reads with nothing done to the messages."""
    per_second: float
    """With the listener, window and storing included."""
    share: float
    """Of what so many threads could do if they did nothing else."""
    others_per_second: float
    """Those that succeed, where each tenth message fails and is sent back."""
    others_share: float
    """Of nine tenths of ``per_second``."""


def measure_consumers(messages: int = 60_000, threads: int = 10, listener_ms: float = 1.0) -> ConsumerResult:
    """Measure without a job: what is sent back stays in ``cb.later``."""
    with workplace() as place:
        _write(place.bootstrap_servers, messages)
        return _measured(place.bootstrap_servers, messages, threads, listener_ms)


def _measured(servers: str, messages: int, threads: int, listener_ms: float) -> ConsumerResult:
    client_alone = _client_alone(servers, messages)
    nap = listener_ms / 1000
    all_well = _per_second(servers, "well", messages, threads, _napping(nap))
    others = _per_second(servers, "failing", messages, threads, _napping(nap, _FAILING_EVERY))
    ideal = threads / nap
    return ConsumerResult(
        round(client_alone),
        round(all_well),
        round(all_well / ideal, 3),
        round(others),
        round(others / (all_well * (1 - 1 / _FAILING_EVERY)), 3),
    )


def _napping(seconds: float, failing_every: int = 0) -> Callable[[ReceivedMessage], ConsumeResult]:
    def listener(message: ReceivedMessage) -> ConsumeResult:
        time.sleep(seconds)
        if failing_every and not message.offset % failing_every:
            return ConsumeResult.LATER
        return ConsumeResult.SUCCESS

    return listener


def _per_second(
    servers: str,
    group: str,
    messages: int,
    threads: int,
    listener: Callable[[ReceivedMessage], ConsumeResult],
) -> float:
    """Successes a second, from the first tenth of the messages to the last."""
    settings = ConsumerSettings(concurrency=threads, start_at=StartAt.FIRST)
    with PushConsumer(servers, group, listener, REAL_TOPIC, settings=settings) as consumer:
        begun = _when_done(consumer, messages // 10)
        ended = _when_done(consumer, messages * 9 // 10 - messages // 100)
    return (ended[1] - begun[1]) / (ended[0] - begun[0])


def _when_done(consumer: PushConsumer, count: int) -> tuple[float, int]:
    pause = threading.Event()
    deadline = time.monotonic() + _LIMIT_SECONDS
    while (done := consumer.figures().all.done) < count and time.monotonic() < deadline:
        consumer.raise_if_dead()
        pause.wait(0.05)
    return time.monotonic(), done


def _client_alone(servers: str, messages: int) -> float:
    settings = {"bootstrap.servers": servers, "group.id": "alone", "isolation.level": "read_committed", "log_level": 2}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(REAL_TOPIC, number, 0) for number in range(HALF_PARTITIONS)])
    begun, count = time.monotonic(), 0
    while count < messages and time.monotonic() < begun + _LIMIT_SECONDS:
        count += len(consumer.consume(500, 0.1))
    seconds = time.monotonic() - begun
    consumer.close()
    return count / seconds


def _write(servers: str, messages: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 2})
    for number in range(messages):
        headers = [(ID, b"%032x" % number), ("trace-id", b"0af7651916cd43dd")]
        produce(producer, REAL_TOPIC, _VALUE, b"customer-%d" % (number % 5000), number % HALF_PARTITIONS, headers)
    producer.flush()
