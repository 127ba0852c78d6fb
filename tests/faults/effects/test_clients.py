"""The harness's stand-ins for a consumer's clients."""

from typing import Any

from kafka.errors import KafkaTimeoutError

from checkback.kafka.kafka_python.repairs import close_producer
from torture.effects.clients import _WatchedProducer  # what stands in for a producer, and is not to be seen elsewhere


class _Unflushed:
    """Closes as kafka-python's producer does while Kafka is away."""

    closed = False

    def flush(self, timeout: float | None = None) -> None:
        raise KafkaTimeoutError

    def close(self, timeout: float | None = None) -> None:
        self.flush(timeout)
        self.closed = True


def test_a_watched_producer_is_closed_while_kafka_is_away() -> None:
    producer, watch = _Unflushed(), object()
    watched: Any = _WatchedProducer(producer, watch)  # type: ignore[arg-type]  # nobody watches here
    close_producer(watched, 0)
    assert producer.closed
