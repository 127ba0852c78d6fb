"""The offsets of a consumer group, read and stored with care.

librdkafka 2.16 loses calls that store them where it loses the group's coordinator: after a restart of the broker eight
of ten calls of ``send_offsets_to_transaction`` that were under way did not come back, whatever time they were given
(librdkafka's issues 5456 and 5511); ``commit``, which takes none, likewise.
"""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from checkback.kafka.bounded_calls import within

_CALL_SECONDS = 5.0
STORE_SECONDS = 10.0
"""Longest wait until a group's offsets are stored."""


def committed(consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """What the consumer's group has committed for each partition, in their order; an offset below 0 where nothing is.

    Raises:
        KafkaException: Kafka did not say, of all partitions or of one.
    """
    found = consumer.committed(list(partitions), timeout=_CALL_SECONDS)
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
    return list(found)


def store_offsets(consumer: Consumer, offsets: Sequence[TopicPartition]) -> None:
    """Store a group's offsets.

    Raises:
        KafkaException: Kafka does not take them, or has not answered in time (_TIMED_OUT).
    """
    in_time(STORE_SECONDS, lambda: consumer.commit(offsets=list(offsets), asynchronous=False))


def in_time(seconds: float, call: Callable[[], Any]) -> None:
    """Make a call that stores a group's offsets, and wait no longer than that.

    Raises:
        KafkaException: what the call raises, or _TIMED_OUT.
    """
    try:
        within(seconds, call)
    except TimeoutError:
        said = f"the group's offsets were not taken within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said, retriable=True)) from None
