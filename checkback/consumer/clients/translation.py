"""Errors and messages of confluent-kafka as those of consumers."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from checkback.consumer.clients.base import KafkaAwayError, RebalanceInProgressError
from checkback.consumer.listener import ReceivedMessage, TopicPartition, UnreadableMessage
from checkback.exceptions import ConsumerError, NotAllowedError
from checkback.kafka.librdkafka.errors import METADATA_REFUSED, NOT_ALLOWED, REBALANCING, error_code, is_fatal
from checkback.kafka.librdkafka.headers import headers_of
from checkback.kafka.librdkafka.library import KafkaException
from checkback.kafka.librdkafka.library import TopicPartition as KafkaTopicPartition
from checkback.wire.groups import metadata_refused


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Errors of confluent-kafka as ours."""
    try:
        yield
    except KafkaException as error:
        code = error_code(error)
        if code in NOT_ALLOWED:
            raise NotAllowedError(repr(error)) from error
        if code in METADATA_REFUSED:
            raise metadata_refused("the consumer", error) from error
        if is_fatal(error.args[0]):
            raise ConsumerError(f"The consumer failed: {error}.") from error
        raise (RebalanceInProgressError if code in REBALANCING else KafkaAwayError)(str(error)) from error


def received(message: Any) -> ReceivedMessage:
    """A message without an error."""
    headers = headers_of(message)
    kind = UnreadableMessage if headers is None else ReceivedMessage
    return kind(
        *(message.topic(), message.partition(), message.offset(), message.key(), message.value()),
        headers or (),
        message.timestamp()[1],
    )


def raise_first(partitions: Sequence[KafkaTopicPartition] | None) -> None:
    """Raise the error of the first partition that has one."""
    for partition in partitions or ():
        if partition.error is not None:
            raise KafkaException(partition.error)


def ours(partitions: Sequence[KafkaTopicPartition]) -> list[TopicPartition]:
    """Partitions of confluent-kafka as those of consumers."""
    return [TopicPartition(one.topic, one.partition) for one in partitions]
