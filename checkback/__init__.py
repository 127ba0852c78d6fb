"""Transactional (half) messages with check-back for Kafka: what applications import."""

from checkback.aio import AsyncTransactionProducer
from checkback.answering import check_app
from checkback.check_protocol import CheckRequest
from checkback.endpoint import CheckEndpoint, EndpointAnnouncer
from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    DuplicateTransactionError,
    HalfMessageError,
    HalfMessageTimeoutError,
    MissingTopicError,
    ProducerClosedError,
    ProtocolError,
    TransactionBlockedError,
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
from checkback.scope import Rollback, TransactionScope
from checkback.version import __version__

__all__ = [
    "AsyncTransactionProducer",
    "CallableListener",
    "CheckEndpoint",
    "CheckRequest",
    "CheckbackError",
    "ConfigurationError",
    "Decision",
    "DuplicateTransactionError",
    "EndpointAnnouncer",
    "ExhaustedListener",
    "ExhaustedMessage",
    "HalfMessage",
    "HalfMessageError",
    "HalfMessageTimeoutError",
    "HalfPosition",
    "LocalTransactionState",
    "Message",
    "MissingTopicError",
    "ProducerClosedError",
    "ProtocolError",
    "Rollback",
    "Topics",
    "Transaction",
    "TransactionBlockedError",
    "TransactionChecker",
    "TransactionListener",
    "TransactionOptions",
    "TransactionProducer",
    "TransactionScope",
    "TransactionSendResult",
    "__version__",
    "check_app",
]
