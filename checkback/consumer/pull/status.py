"""What a pull finds, and where to pull next: the nine statuses of RocketMQ's store as one table. No Kafka.

The names are those of ``DefaultMessageStore.getMessage``; ``docs/pull-consumer.md`` says what each is on Kafka.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from checkback.kafka.bounds import Bounds


class PullStatus(StrEnum):
    """What a pull found (RocketMQ's ``GetMessageStatus``)."""

    FOUND = "FOUND"
    """Messages that the subscription is for."""
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """Messages, but none that the subscription is for."""
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    """The partition has never had one."""
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    """There is no such topic or partition."""
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    """The offset lies before what is kept."""
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    """The offset is that of the next message to come."""
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    """The offset lies behind that."""
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    """There are offsets, and no message has them."""
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    """The message was there, and was deleted before it was read."""


class Read(NamedTuple):
    """What was found from an offset within the bounds on."""

    next_offset: int
    """Behind the last message looked at, and behind what has offsets and is not a message."""
    looked_at: int = 0
    """Messages."""
    matched: int = 0
    """Of these, those that the subscription is for."""
    gone: bool = False
    """The log answered that it does not have the offset, which was within the bounds a moment ago."""


class Facts(NamedTuple):
    """All that a verdict depends on."""

    offset: int
    """Where the pull began."""
    bounds: Bounds | None
    """None: there is no such partition. Looked up again when the offset was found to be gone."""
    read: Read | None = None
    """None before the log was read."""


class Verdict(NamedTuple):
    """A row of the table that holds."""

    status: PullStatus
    next_offset: int
    """Where to pull next."""


class _Row(NamedTuple):
    status: PullStatus
    holds: Callable[[int, Bounds, Read | None], bool]
    next_offset: Callable[[int, Bounds, Read], int]


def _behind(_offset: int, bounds: Bounds, _read: Read) -> int:
    """Where nothing has ever been deleted all is read again: none is lost, and there is nobody to say what is new."""
    return bounds.end if bounds.first > 0 else bounds.first


_NOTHING = Read(0)
_TABLE = (
    # what was read
    _Row(PullStatus.FOUND, lambda _o, _b, r: r is not None and r.matched > 0, lambda _o, _b, r: r.next_offset),
    _Row(
        PullStatus.NO_MATCHED_MESSAGE,
        lambda _o, _b, r: r is not None and r.looked_at > 0,
        lambda _o, _b, r: r.next_offset,
    ),
    _Row(
        PullStatus.OFFSET_FOUND_NULL,
        lambda o, _b, r: r is not None and r.next_offset > o,
        lambda _o, _b, r: r.next_offset,
    ),
    _Row(
        PullStatus.MESSAGE_WAS_REMOVING,
        lambda o, b, r: r is not None and r.gone and o < b.first,
        lambda _o, b, _r: b.first,
    ),
    # nothing was, or nothing had come
    _Row(PullStatus.NO_MESSAGE_IN_QUEUE, lambda _o, b, _r: b.end == 0, lambda *_: 0),
    _Row(PullStatus.OFFSET_TOO_SMALL, lambda o, b, _r: o < b.first, lambda _o, b, _r: b.first),
    _Row(PullStatus.OFFSET_OVERFLOW_ONE, lambda o, b, _r: o == b.end, lambda o, _b, _r: o),
    _Row(PullStatus.OFFSET_OVERFLOW_BADLY, lambda o, b, _r: o > b.end, _behind),
)
"""Tried in this order; the first that holds is the status. With none of them the offset is within the bounds."""


def judge(facts: Facts) -> Verdict | None:
    """The verdict; None when the log has to be read for it, or read again."""
    if facts.bounds is None:
        return Verdict(PullStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    for row in _TABLE:
        if row.holds(facts.offset, facts.bounds, facts.read):
            return Verdict(row.status, row.next_offset(facts.offset, facts.bounds, facts.read or _NOTHING))
    return None
