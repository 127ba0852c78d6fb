"""Transactional (half) messages with check-back for Kafka: what applications import."""

from checkback.answering import check_app
from checkback.check_protocol import CheckRequest
from checkback.endpoint import CheckEndpoint, EndpointAnnouncer
from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    HalfMessageError,
    HalfMessageTimeoutError,
    ProducerClosedError,
    ProtocolError,
)
from checkback.exhausted import Decision, ExhaustedListener, ExhaustedMessage
from checkback.listener import (
    CallableListener,
    HalfMessage,
    LocalTransactionState,
    TransactionChecker,
    TransactionListener,
    TransactionSendResult,
)
from checkback.producer import Transaction, TransactionProducer
from checkback.protocol import HalfPosition, Message, Topics, TransactionOptions

__all__ = [
    "CallableListener",
    "CheckEndpoint",
    "CheckRequest",
    "CheckbackError",
    "ConfigurationError",
    "Decision",
    "EndpointAnnouncer",
    "ExhaustedListener",
    "ExhaustedMessage",
    "HalfMessage",
    "HalfMessageError",
    "HalfMessageTimeoutError",
    "HalfPosition",
    "LocalTransactionState",
    "Message",
    "ProducerClosedError",
    "ProtocolError",
    "Topics",
    "Transaction",
    "TransactionChecker",
    "TransactionListener",
    "TransactionOptions",
    "TransactionProducer",
    "TransactionSendResult",
    "check_app",
]
