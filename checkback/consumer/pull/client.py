"""What a pull consumer needs of a Kafka client, and nothing more."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.kafka.bounds import Bounds

ASK_SECONDS = 10.0
"""For Kafka to answer a question."""


class LogRead(NamedTuple):
    """What was read of a partition's log."""

    messages: Sequence[ReceivedMessage]
    next_offset: int
    """Behind them, and behind offsets that no message has; where it was to begin, when there is nothing yet."""
    gone: bool = False
    """The log does not have the offset, or is not there any more."""


class PullClient(Protocol):
    """A Kafka client that reads from offsets that it is given, ``read_committed``. For one thread at a time."""

    def partitions(self, topic: str) -> Sequence[int]:
        """The numbers of a topic's partitions; none when Kafka has no such topic.

        Raises:
            KafkaUnreachableError: Kafka does not say.
        """

    def bounds(self, partition: TopicPartition) -> Bounds | None:
        """The offsets that a partition has now; None when there is no such partition.

        Raises:
            KafkaUnreachableError: Kafka does not say.
        """

    def read(self, partition: TopicPartition, offset: int, most: int, seconds: float) -> LogRead:
        """Read at most so many messages from an offset on; at once when there is something, else within ``seconds``.

        Raises:
            ConfigurationError: the topic may not be read.
        """

    def close(self) -> None:
        """Let go of Kafka."""
