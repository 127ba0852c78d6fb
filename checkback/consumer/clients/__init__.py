"""The two Kafka clients of a consumer: kafka-python, the default, or confluent-kafka, which is faster."""

from checkback.consumer.clients.base import (
    Connection,
    GroupClient,
    KafkaAwayError,
    NewTopic,
    OffsetsGoneError,
    Rebalances,
    RecordRefusedError,
    Sender,
)
from checkback.consumer.clients.connecting import clients_of

__all__ = [
    "Connection",
    "GroupClient",
    "KafkaAwayError",
    "NewTopic",
    "OffsetsGoneError",
    "Rebalances",
    "RecordRefusedError",
    "Sender",
    "clients_of",
]
