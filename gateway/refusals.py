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
    title: str
    """Of the problem, over HTTP."""
    retriable: bool = False


class RefusalReason(Enum):
    """What is wrong."""

    REQUEST = Spelling(40000, 400, "Not what this call takes")
    """It is not what its protocol says it is."""
    TOPIC = Spelling(40002, 400, "No topic for messages")
    """No topic can have this name, or none that clients may write to."""
    TAG = Spelling(40004, 400, "Not a tag")
    KEY = Spelling(40005, 400, "Not a key")
    MESSAGE_GROUP = Spelling(40006, 400, "Not a message group")
    HEADER = Spelling(40007, 400, "Not a header of a message")
    TRANSACTION = Spelling(40008, 400, "Not a transaction of these gateways")
    """It is not a transaction id that a gateway with this secret has given out."""
    ONCE = Spelling(40000, 422, "Idempotency-Key of another request")
    """Under the name that is to make it happen once, something else was asked for before."""
    DELIVERY_TIME = Spelling(40012, 400, "Not a delivery time")
    TYPE = Spelling(40014, 400, "Not a type of message")
    """The message's properties and its type contradict one another."""
    WHO = Spelling(40100, 401, "Nobody knows who asks")
    """Nobody knows who asks."""
    RIGHTS = Spelling(40300, 403, "Not allowed")
    """The access policy does not let him."""
    NO_TOPIC = Spelling(40402, 404, "No such topic")
    TOO_LARGE = Spelling(41301, 413, "Too large")
    HEADERS_TOO_LARGE = Spelling(43101, 413, "Headers too large")
    BUSY = Spelling(42900, 429, "Too much at once", retriable=True)
    NOT_THERE = Spelling(50100, 501, "Not in a gateway")
    """RocketMQ has it, and a gateway does not."""
    KAFKA = Spelling(50001, 503, "Kafka has not taken it, as far as is known", retriable=True)
    """Kafka is away, or does not take it now. It may have it all the same."""


class GatewayError(CheckbackError):
    """A gateway did not do what a client asked; the message says what to do."""

    def __init__(self, refusal: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.retriable = refusal.value.retriable
