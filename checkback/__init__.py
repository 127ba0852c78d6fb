"""Transactional (half) messages with check-back for Kafka: what applications import."""

from checkback.answering.app import check_app
from checkback.answering.endpoint import CheckEndpoint, EndpointAnnouncer
from checkback.exceptions import (
    CheckbackError,
    ConfigurationError,
    DuplicateTransactionError,
    GroupOverLimitError,
    HalfMessageError,
    HalfMessageTimeoutError,
    MissingTopicError,
    ProducerClosedError,
    ProtocolError,
    RecordLostError,
    TransactionBlockedError,
)
from checkback.listener import (
    CallableListener,
    HalfMessage,
    LocalTransactionState,
    TransactionChecker,
    TransactionListener,
    TransactionSendResult,
)
from checkback.producing.asyncio_face import AsyncTransactionProducer, BeginTransaction, TransactionDependency
from checkback.producing.producer import TransactionProducer
from checkback.producing.scope import Rollback, TransactionScope
from checkback.producing.several import Transaction
from checkback.version import __version__
from checkback.wire.checks import CheckRequest
from checkback.wire.exhausted import Decision, ExhaustedListener, ExhaustedMessage
from checkback.wire.protocol import HalfPosition, Message, Topics, TransactionOptions
from checkback.wire.signed_records import SigningKey

__all__ = [
    "AsyncTransactionProducer",
    "BeginTransaction",
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
    "GroupOverLimitError",
    "HalfMessage",
    "HalfMessageError",
    "HalfMessageTimeoutError",
    "HalfPosition",
    "LocalTransactionState",
    "Message",
    "MissingTopicError",
    "ProducerClosedError",
    "ProtocolError",
    "RecordLostError",
    "Rollback",
    "SigningKey",
    "Topics",
    "Transaction",
    "TransactionBlockedError",
    "TransactionChecker",
    "TransactionDependency",
    "TransactionListener",
    "TransactionOptions",
    "TransactionProducer",
    "TransactionScope",
    "TransactionSendResult",
    "__version__",
    "check_app",
]
