"""The two Kafka clients of a consumer: kafka-python, the default, or confluent-kafka, which is faster."""

from checkback.consumer.clients.base import (
    Connection,
    GroupClient,
    KafkaAwayError,
    Limits,
    NewTopic,
    OffsetsGoneError,
    Rebalances,
    RefusedError,
    Sender,
)
from checkback.consumer.clients.connecting import clients_of

__all__ = [
    "Connection",
    "GroupClient",
    "KafkaAwayError",
    "Limits",
    "NewTopic",
    "OffsetsGoneError",
    "Rebalances",
    "RefusedError",
    "Sender",
    "clients_of",
]
