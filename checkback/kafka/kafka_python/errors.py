"""What kafka-python's errors mean, in one place."""

from kafka.errors import (
    BrokerNotAvailableError,
    CommitFailedError,
    CorrelationIdError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidReceiveError,
    InvalidRecordError,
    KafkaError,
    KafkaProtocolError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    RebalanceInProgressError,
    RecordListTooLargeError,
    UnknownBrokerIdError,
    UnknownError,
    UnknownMemberIdError,
)

REBALANCING = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""The group is sharing its partitions out again."""
FENCED = (InvalidProducerEpochError, ProducerFencedError)
"""Another producer of the same transactional id has begun, or Kafka has ended the transaction."""
OF_THE_RECORD = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidRecordError)
"""Refusals that are one record's fault: the topic takes others."""
_TRANSIENT = (
    *REBALANCING,
    *(
        BrokerNotAvailableError,
        UnknownBrokerIdError,
        UnknownError,
        KafkaProtocolError,
        InvalidReceiveError,
        CorrelationIdError,
    ),
)


def passes(error: BaseException) -> bool:
    """Whether a call may go well later, with nothing changed: Kafka is away, or busy with itself."""
    if isinstance(error, KafkaError):
        return error.retriable or isinstance(error, _TRANSIENT)
    return isinstance(error, OSError)
