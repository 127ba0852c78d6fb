"""What kafka-python's errors mean, in one place."""

from kafka.errors import (
    BrokerNotAvailableError,
    CommitFailedError,
    CorrelationIdError,
    IllegalGenerationError,
    InvalidReceiveError,
    KafkaError,
    KafkaProtocolError,
    RebalanceInProgressError,
    UnknownBrokerIdError,
    UnknownError,
    UnknownMemberIdError,
)

_TRANSIENT = (
    # the group is sharing its partitions out again
    *(CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError),
    *(BrokerNotAvailableError, UnknownBrokerIdError, UnknownError),
    *(KafkaProtocolError, InvalidReceiveError, CorrelationIdError),
)


def passes(error: BaseException) -> bool:
    """Whether a call may go well later, with nothing changed: Kafka is away, or busy with itself."""
    if isinstance(error, KafkaError):
        return error.retriable or isinstance(error, _TRANSIENT)
    return isinstance(error, OSError)
