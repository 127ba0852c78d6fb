"""What a producer's lane needs of a Kafka client: transactions that also have the lane's ledger."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

from checkback.exceptions import CheckbackError, KafkaUnreachableError, NotAllowedError
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Headers, Topics
from checkback.wire.rights import not_allowed, of_lanes

DELIVER_SECONDS = 5.0
"""Of each call of a transaction: as long as Kafka lets the transaction be open."""
_OPEN_SECONDS = 15.0


class LaneRecord(NamedTuple):
    """A message as it goes to its real topic."""

    topic: str
    partition: int | None
    """None: the key decides, as ``murmur2_random`` does; any without a key."""
    key: bytes | None
    value: bytes | None
    headers: Headers


class LaneRefusedError(CheckbackError):
    """Kafka does not take some of the records; the transaction was aborted, and that was heard. The lane lives."""

    def __init__(self, numbers: frozenset[int], why: object) -> None:
        super().__init__(f"Kafka refused messages: {why}")
        self.numbers = numbers
        """Of the records that are known to be refused, in the order given; others may be, too."""


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

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many partitions each topic has; 0 where there is none, or this client may not write to it.

        One that Kafka says nothing of is left out.
        """

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        """Write these and the ledger in one Kafka transaction. When it returns, the commit was heard.

        Raises:
            LaneRefusedError: nothing was delivered, and the lane may be used on, but for topics that have refused a
                record: both libraries have counted it, and the next one there would be out of order for Kafka.
            LaneLostError: after anything else.
        """

    def close(self) -> None:
        """Give up the connections; what is under way is left to whoever settles."""


def patiently(attempt: Callable[[], None]) -> None:
    """Try until it goes well, for some seconds: Kafka makes its topics for groups and transactions when first asked.

    Raises:
        KafkaUnreachableError: it has not.
    """
    until = monotonic() + _OPEN_SECONDS
    while True:
        try:
            return attempt()
        except KafkaUnreachableError:
            if monotonic() >= until:
                raise


class LanePlace(NamedTuple):
    """Where a lane's writer connects to."""

    bootstrap_servers: str
    topics: Topics
    transactional_id: str
    options: Mapping[str, Any]
    """The producer's; what says how Kafka is reached is taken of them."""

    def not_allowed(self, error: Exception) -> NotAllowedError:
        """What to raise when Kafka refuses what concerns the lane."""
        of_group = self.transactional_id.rpartition(":")[0]
        return not_allowed("the producer", error, list(of_lanes(f"{of_group}:", self.topics.progress)))
