"""Transactional (half) messages with check-back for Kafka: what applications import."""

from checkback.endpoint import CheckEndpoint, EndpointAnnouncer, check_app
from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    HalfMessageError,
    HalfMessageTimeoutError,
    ProducerClosedError,
    ProtocolError,
)
from checkback.listener import (
    CallableListener,
    HalfMessage,
    LocalTransactionState,
    TransactionListener,
    TransactionSendResult,
)
from checkback.producer import TransactionProducer
from checkback.protocol import CheckRequest, HalfPosition, Topics

__all__ = [
    "CallableListener",
    "CheckEndpoint",
    "CheckRequest",
    "CheckbackError",
    "ConfigurationError",
    "EndpointAnnouncer",
    "HalfMessage",
    "HalfMessageError",
    "HalfMessageTimeoutError",
    "HalfPosition",
    "LocalTransactionState",
    "ProducerClosedError",
    "ProtocolError",
    "Topics",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "check_app",
]
