"""Calls of librdkafka that store offsets, within a time: 2.16 loses them where it loses the group's coordinator.

After a restart of the broker eight of ten calls of ``send_offsets_to_transaction`` that were under way did not come
back, whatever time they were given (librdkafka's issues 5456 and 5511); ``commit``, which takes none, likewise.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from checkback.kafka.bounded_calls import within

_LONGER_SECONDS = 1.0
STORE_SECONDS = 10.0
"""Longest wait until a group's offsets are stored."""


def add_offsets(producer: Producer, offsets: Sequence[TopicPartition], group: Any, seconds: float) -> None:
    """Put a group's offsets into the transaction.

    Raises:
        KafkaException: Kafka does not take them, or has not answered in time (_TIMED_OUT). Then that producer is of no
            use any more; the next one of its name ends the transaction.
    """
    _bounded(seconds + _LONGER_SECONDS, lambda: producer.send_offsets_to_transaction(list(offsets), group, seconds))


def store_offsets(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """Store a group's offsets.

    Raises:
        KafkaException: Kafka does not take them, or has not answered in time (_TIMED_OUT).
    """
    _bounded(STORE_SECONDS, lambda: consumer.commit(offsets=list(offsets), asynchronous=False))


def _bounded(seconds: float, call: Callable[[], Any]) -> None:
    try:
        within(seconds, call)
    except TimeoutError:
        said = f"the group's offsets were not taken within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said, retriable=True)) from None
