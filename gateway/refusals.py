"""Why a gateway does not do what a client asks: one table of what each protocol says then. No I/O."""

from enum import Enum
from typing import NamedTuple

from checkback.exceptions import CheckbackError


class Spelling(NamedTuple):
    """How a refusal is spelled."""

    code: int
    """RocketMQ's: ``Code`` in ``apache/rocketmq/v2/definition.proto``."""
    status: int
    """Of HTTP."""
    retriable: bool = False


class RefusalReason(Enum):
    """What is wrong."""

    REQUEST = Spelling(40000, 400)
    """It is not what its protocol says it is."""
    TOPIC = Spelling(40002, 400)
    """No topic can have this name, or none that clients may write to."""
    TAG = Spelling(40004, 400)
    KEY = Spelling(40005, 400)
    MESSAGE_GROUP = Spelling(40006, 400)
    HEADER = Spelling(40007, 400)
    TRANSACTION = Spelling(40008, 400)
    """It is not a transaction id that a gateway with this secret has given out."""
    ONCE = Spelling(40000, 422)
    """Under the name that is to make it happen once, something else was asked for before."""
    DELIVERY_TIME = Spelling(40012, 400)
    TYPE = Spelling(40014, 400)
    """The message's properties and its type contradict one another."""
    WHO = Spelling(40100, 401)
    """Nobody knows who asks."""
    RIGHTS = Spelling(40300, 403)
    """The access policy does not let him."""
    NO_TOPIC = Spelling(40402, 404)
    TOO_LARGE = Spelling(41301, 413)
    HEADERS_TOO_LARGE = Spelling(43101, 413)
    BUSY = Spelling(42900, 429, retriable=True)
    NOT_THERE = Spelling(50100, 501)
    """RocketMQ has it, and a gateway does not."""
    KAFKA = Spelling(50001, 503, retriable=True)
    """Kafka is away, or does not take it now. It may have it all the same."""


class GatewayError(CheckbackError):
    """A gateway did not do what a client asked; the message says what to do."""

    def __init__(self, refusal: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.retriable = refusal.value.retriable
