"""What a producer's lane needs of a Kafka client: transactions that also have the lane's ledger."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from checkback.exceptions import CheckbackError
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Headers


class LaneRecord(NamedTuple):
    """A message as it goes to its real topic."""

    topic: str
    partition: int | None
    """None: the key decides, as ``murmur2_random`` does; any without a key."""
    key: bytes | None
    value: bytes | None
    headers: Headers


class LaneRefusedError(CheckbackError):
    """Kafka takes some of the records not at all; the transaction was aborted, and that was heard. The lane lives."""

    def __init__(self, topics: frozenset[str], why: str) -> None:
        super().__init__(why)
        self.topics = topics
        """Those that are known to refuse; empty where Kafka does not say which it was."""


class LaneLostError(CheckbackError):
    """What became of the transaction is not known, or the lane was fenced: it is to be settled, and used no more."""

    retriable = True


class LaneWriter(Protocol):
    """One lane of this process; one thread at a time uses it."""

    def open(self) -> None:
        """Take the lane, and commit an empty ledger: before a half message names it.

        Raises:
            KafkaUnreachableError: Kafka is away.
            ConfigurationError: Kafka does not allow it; the message says what to allow.
        """

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        """Write these and the ledger in one Kafka transaction. When it returns, the commit was heard.

        Raises:
            LaneRefusedError: nothing was delivered, and the lane may be used on.
            LaneLostError: after anything else.
        """

    def close(self) -> None:
        """Give up the connections; what is under way is left to whoever settles."""
