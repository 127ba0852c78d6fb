"""What kafka-python's errors mean, and what is said where Kafka does not let whoever only looks do so."""

from collections.abc import Callable, Mapping

from kafka.errors import (
    AuthorizationError,
    BrokerNotAvailableError,
    CommitFailedError,
    CorrelationIdError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InvalidReceiveError,
    KafkaError,
    KafkaProtocolError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
    UnknownBrokerIdError,
    UnknownError,
    UnknownMemberIdError,
)

from checkback.exceptions import NotAllowedError
from checkback.wire.rights import Operation, ResourceKind, Right, not_allowed, read

_TRANSIENT = (
    # the group is sharing its partitions out again
    *(CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError),
    *(BrokerNotAvailableError, UnknownBrokerIdError, UnknownError),
    *(KafkaProtocolError, InvalidReceiveError, CorrelationIdError),
)
_RIGHTS: Mapping[type[AuthorizationError], Callable[[str], Right]] = {
    TopicAuthorizationFailedError: lambda name: read(name, ""),
    GroupAuthorizationFailedError: lambda name: Right(Operation.DESCRIBE, ResourceKind.GROUP, name),
}
"""Who only looks reads topics and sees groups."""


def passes(error: BaseException) -> bool:
    """Whether a call may go well later, with nothing changed: Kafka is away, or busy with itself."""
    if isinstance(error, KafkaError):
        return error.retriable or isinstance(error, _TRANSIENT)
    return isinstance(error, OSError)


def is_refusal(error: Exception) -> bool:
    """Whether Kafka's lists are the reason; of a producer that may write nowhere kafka-python says so in words only."""
    return isinstance(error, AuthorizationError) or "AuthorizationFailedError" in repr(error)


def refused(error: KafkaError) -> NotAllowedError | None:
    """The error that names the right; None where Kafka has refused nothing, or says no name."""
    of_kind = next((right for kind, right in _RIGHTS.items() if isinstance(error, kind)), None)
    if of_kind is None or not error.args:  # other errors have anything as their argument
        return None
    said = error.args[0]
    # kafka-python does not say it bare where it looks for the group's coordinator
    names = [said.rpartition("GROUP/")[2].removesuffix(": ")] if isinstance(said, str) else sorted(map(str, said))
    return not_allowed("this client", error, [of_kind(name) for name in names]) if names else None
