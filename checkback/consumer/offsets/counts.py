"""What has become of messages, and how far a partition is."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class MessageCounts:
    """What has become of messages so far."""

    done: int = 0
    retried: int = 0
    """Sent back, or, with an order, tried again here."""
    dead: int = 0
    """Sent to the dead letters."""
    given_up: int = 0
    """Failed while broadcasting, and dropped."""
    filtered: int = 0
    """Not wanted, by their tags."""
    skipped: int = 0
    """Offsets gone past without handling what was there: it is gone, or ``when_offset_is_gone`` says so."""

    def add(self, other: "MessageCounts") -> None:
        """Those of another."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)


class PartitionProgress(NamedTuple):
    """How far a partition is."""

    position: int
    """The next offset to read, for whoever begins again."""
    span: int
    """Offsets from there to the newest message that was read."""
    held: int
    """Messages under way."""
