"""What an application tells a producer about its local transactions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import Action, HalfPosition, Headers, Message


class LocalTransactionState(StrEnum):
    """How a local transaction ended (RocketMQ's ``LocalTransactionState``)."""

    COMMIT = Action.COMMIT
    ROLLBACK = Action.ROLLBACK
    UNKNOWN = Action.UNKNOWN
    """Not known, or not ended yet: the check will ask."""


class HalfMessage(NamedTuple):
    """A half message that Kafka has acknowledged."""

    transaction_id: str
    topic: str
    value: bytes | None
    key: bytes | None
    headers: Headers
    half: HalfPosition
    messages: Sequence[Message] = ()
    """All messages, when the transaction has several; ``topic`` is the first one's then, the rest is empty."""
    lane: str = ""
    """The lane that may deliver it; empty: the job does."""


class TransactionSendResult(NamedTuple):
    """What became of :meth:`TransactionProducer.send_in_transaction`."""

    transaction_id: str
    state: LocalTransactionState
    half: HalfPosition
    """Partition and offset of the half message."""
    remark: str = ""
    """Why the state is unknown, if it is."""
    delivered: bool = False
    """Whether the message can be read already; known only with ``wait=True``."""
    left_to_job: bool = False
    """Whether the job delivers it; known only with ``wait=True``. When both are False, 10 s were too short."""


@runtime_checkable
class TransactionChecker(Protocol):
    """Answers checks: all that a check endpoint needs."""

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Say what became of a local transaction, of this process or of another one of the group.

        Called from the check endpoint's threads. An exception means *unknown*.
        """


@runtime_checkable
class TransactionListener(TransactionChecker, Protocol):
    """Implemented by the application (RocketMQ's ``TransactionListener``)."""

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        """Run the local transaction; called once the half message is safe in Kafka.

        An exception means *unknown*: the database may have committed, the check will tell.
        """


@dataclass(frozen=True)
class CallableListener:
    """A listener made of two functions."""

    execute: Callable[[HalfMessage, Any], LocalTransactionState]
    check: Callable[[CheckRequest], LocalTransactionState]

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        """Call ``execute``."""
        return self.execute(message, arg)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        """Call ``check``."""
        return self.check(request)
