"""What a consumer's Kafka clients are given, and what they raise."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import SentBack
from checkback.exceptions import CheckbackError

SEND_MS = 10_000
"""Longest time of a transaction: after a consumer has died within one, others wait for its end, and for no longer."""
AT_ONCE = 100
"""Messages of one poll, at most: listeners wait while more of them are made."""
_COMMIT_BYTES = 500_000
_OFFSET_BYTES = 400
"""Of a stored offset, without its topic's name and its metadata, at most: the group's name, numbers."""


class KafkaAwayError(CheckbackError):
    """Kafka did not answer, or was busy with itself: the same call may go well later."""

    retriable = True


class RebalanceInProgressError(KafkaAwayError):
    """The group is sharing its partitions out again: it goes well after some polls, and only after them."""


class FencedError(KafkaAwayError):
    """Another producer of the same transactional id has begun: this one writes nothing any more.

    Whether its last transaction was committed, the other one finds.
    """

    retriable = False


class OffsetsGoneError(CheckbackError):
    """There are no messages at these offsets any more, or there never were; None: they are another log's."""

    def __init__(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        super().__init__(
            f"no messages at {', '.join(f'{partition} {offset}' for partition, offset in offsets.items())}"
        )
        self.offsets = offsets


class RecordRefusedError(CheckbackError):
    """Kafka does not take one of the records of a transaction, which is aborted; ``number`` says which."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class Member(NamedTuple):
    """A consumer of a group."""

    client_id: str
    host: str


def anywhere(records: Sequence[SentBack]) -> set[str]:
    """Topics for which a transaction chooses a partition."""
    return {record.topic for record in records if record.partition is None}


class NewTopic(NamedTuple):
    """A topic to be made where it is missing."""

    name: str
    partitions: int
    configuration: Mapping[str, str]


@dataclass(frozen=True)
class Connection:
    """How a client reaches Kafka."""

    bootstrap_servers: str
    group: str
    client_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the client, under librdkafka's names."""


class Rebalances(Protocol):
    """Told of a group's rebalances, from within :meth:`GroupClient.poll` and ``close``, perhaps on another thread."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are ours now. Nothing is read of them before :meth:`GroupClient.begin`."""

    def leaving(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Stored]:
        """These will be somebody else's; gives what is to be stored before."""

    def left(self, partitions: Collection[TopicPartition]) -> None:
        """These are not ours any more; what was to be stored is, if Kafka took it."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """These are somebody else's already: nothing may be stored."""


def in_commits(offsets: Mapping[TopicPartition, Stored]) -> Iterator[dict[TopicPartition, Stored]]:
    """Offsets in pieces of which Kafka takes each: it writes the offsets of a request in one batch, of 1 MB at most.

    That is ``max.message.bytes`` of ``__consumer_offsets``, which 250 partitions with the longest metadata exceed.
    """
    piece: dict[TopicPartition, Stored] = {}
    size = 0
    for partition, stored in offsets.items():
        one = len(stored.metadata.encode()) + len(partition.topic) + _OFFSET_BYTES
        if piece and size + one > _COMMIT_BYTES:
            yield piece
            piece, size = {}, 0
        piece[partition] = stored
        size += one
    if piece:
        yield piece
