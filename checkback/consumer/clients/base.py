"""What a consumer needs of a Kafka client, and nothing more."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import SentBack
from checkback.exceptions import CheckbackError
from checkback.kafka.bounds import Bounds

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
    """Further settings of the client, under its own names."""


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


def known_ids(found: Mapping[str, UUID]) -> dict[str, str]:
    """Topics' ids, spelled in one way: members of a group on different clients tell each other of them.

    Brokers that give topics none say zero.
    """
    return {name: str(one) for name, one in found.items() if one.int}


class GroupClient(Protocol):
    """A consumer, ``read_committed``. One thread uses it, but for :meth:`membership`.

    Raises:
        KafkaAwayError: from all methods, when it may go well later.
        CheckbackError: likewise, for what does not pass by itself.
    """

    def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
        """Join the group. With it go rebalances, cooperative where the client has them."""

    def poll(self, seconds: float, most: int = AT_ONCE) -> Mapping[TopicPartition, Sequence[ReceivedMessage]]:
        """Wait for messages for at most that long; gives ``most`` of them, or fewer.

        Raises:
            OffsetsGoneError: there are none where some partitions are read.
        """

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from there on; assigned ones of the group, or any where there is no group."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Read no further in these."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Read on."""

    def stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What the group has stored, of those partitions for which it has."""

    def store(self, offsets: Mapping[TopicPartition, Stored]) -> None:
        """Store offsets for the group, and wait until that is done."""

    def limits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Where these partitions begin and end."""

    def offsets_at(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Offset of the first message of this time or later; the end where there is none."""

    def partitions(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each of these topics has, of those that exist."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """What tells each of these topics from one of the same name that was made again, of those that exist."""

    def end_known(self, partition: TopicPartition) -> int | None:
        """The end of a partition as it was last heard of, without asking."""

    def reads_next(self, partition: TopicPartition) -> int | None:
        """Where a partition is read next, without asking; all messages before it were given by :meth:`poll`.

        It passes over the ends of transactions, which are not messages. None: not known.
        """

    def make_topics(self, topics: Sequence[NewTopic]) -> list[str]:
        """Make those that are missing; gives them."""

    def members(self) -> list[Member]:
        """Who is in the group now."""

    def membership(self) -> object:
        """What proves membership to a transaction; from any thread.

        Raises:
            KafkaAwayError: it is not a member at this moment. Brokers take offsets of a transaction that names none.
        """

    remembers_topics: bool
    """Whether a topic that was made again may not be read for what is remembered of the old one: see :meth:`forget`."""

    def forget(self) -> None:
        """Leave the group, and join it as one that knows nothing. All partitions are put down, and stored, before."""

    def close(self) -> None:
        """Leave the group, after :meth:`Rebalances.leaving`."""


class Sender(Protocol):
    """A transactional producer.

    After any error it is closed, and another one made with the same name: librdkafka's, used again after a refusal, has
    lost count of its records, and its next transaction fails.
    """

    @property
    def spent(self) -> bool:
        """Whether it takes nothing more, though its last transaction has ended: see ``SpentEpochError``."""

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Write records, and store the group's offsets, in one transaction; without offsets ``membership`` is not used.

        ``one_by_one``: each in a batch of its own, which may be too large where each of its records would not be.

        Raises:
            RecordRefusedError: Kafka does not take one of them, or, if not ``one_by_one``, one that came with it.
                Nothing was written.
            FencedError: another of its name has begun.
            KafkaAwayError: something else. Whether it was written is known once another has been made.
        """

    def close(self) -> None:
        """End."""


class Clients(Protocol):
    """Makes the clients of one library. Making one raises ConfigurationError, or KafkaAwayError."""

    def consumer(self, connection: Connection) -> GroupClient:
        """A consumer."""

    def sender(self, connection: Connection, transactional_id: str) -> Sender:
        """A transactional producer. Made, it has ended the last transaction of the one before it of this name."""

    def stored(self, connection: Connection, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
        """What a group has stored, asked by a client that is there for nothing else.

        The consumer's own may be waiting for the end of the very transaction that this is asked about.
        """
