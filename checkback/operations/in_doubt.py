"""Transactions in doubt, for people: what lies in ``cb.status``.

One row for each transaction that was checked at least once and is still undecided. The topic is compacted: reading it
from its beginning gives them all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import number_of, read_object, text_of
from checkback.wire.protocol import MAX_GROUP_BYTES, MAX_ID_BYTES, MAX_TOPIC_BYTES, Action, HalfPosition

_MOST_BYTES = 64
"""Of a place or an answer; both are shorter."""
MOST_REMARK_BYTES = 4 * 1024
"""The job writes 512 at most, of which each may have become three."""
_UNANSWERED: Mapping[str, Any] = {"answered_ms": 0, "misses": 0, "remark": ""}
"""Fields that a row lacks until the first check is answered."""
_AHEAD_MS = 3_600_000
"""So much later than its record's time stamp a message may have been taken in, by clocks that differ."""

Ends = Mapping[int, int]
"""Where the partitions of the half topic end; empty: there are none."""


class InDoubt(NamedTuple):
    """A transaction that was checked at least once and is still undecided."""

    transaction_id: str
    """As its producer says; another group's message may say the same."""
    group: str
    topic: str
    half: HalfPosition
    attempt: int
    """Which attempt the last check was: 1 for the first."""
    check_max: int
    ingested_ms: int
    """When the job took the half message in, in ms since 1970."""
    asked_ms: int
    """When its producers were last asked."""
    last_answer: str = ""
    """What came of the last check: ``unknown``, ``unreachable``; empty: the first has not been answered yet. Without
    ``answered_ms``, what came of the one before."""
    next_check_ms: int = 0
    """When they are asked again; 0: not known. In the past: they are being asked, or it is due."""
    answered_ms: int = 0
    """When the answer was taken in; 0: the last check has not been answered."""
    misses: int = 0
    """How many checks in a row reached no endpoint."""
    remark: str = ""
    """What the answer said beside that."""

    @property
    def attempts(self) -> int:
        """How many checks were answered, and none of them with a verdict."""
        return self.attempt if self.answered_ms and self.last_answer == Action.UNKNOWN else max(0, self.attempt - 1)


def in_doubt(value: bytes) -> InDoubt:
    """Read a record's value.

    Raises:
        ValueError, ProtocolError: the job did not write it.
    """
    row = {**_UNANSWERED, **read_object(value)}
    return InDoubt(
        transaction_id=text_of(row, "transaction_id", MAX_ID_BYTES),
        group=text_of(row, "group", MAX_GROUP_BYTES),
        topic=text_of(row, "topic", MAX_TOPIC_BYTES),
        half=HalfPosition.parse(text_of(row, "half", _MOST_BYTES)),
        attempt=number_of(row, "attempt"),
        check_max=number_of(row, "check_max"),
        ingested_ms=number_of(row, "ingested_ms"),
        asked_ms=number_of(row, "asked_ms"),
        last_answer=text_of(row, "last_answer", _MOST_BYTES),
        next_check_ms=number_of(row, "next_check_ms"),
        answered_ms=number_of(row, "answered_ms"),
        misses=number_of(row, "misses"),
        remark=text_of(row, "remark", MOST_REMARK_BYTES),
    )


def newest(records: Iterable[Any], ends: Callable[[], Ends] = dict) -> dict[HalfPosition, InDoubt]:
    """The transactions that are in doubt after these records of ``cb.status``, those last checked at the end.

    The topic may have been written to by others, and by earlier versions, whose keys were transaction ids: what does
    not lie under its own place is passed over, and what names a place behind the half topic's end, which ``ends`` is
    asked for when all records were read.
    """
    found: dict[HalfPosition, InDoubt] = {}
    for record in records:
        place = place_of(record.key)
        if place is None:
            continue
        found.pop(place, None)
        row = row_of(place, record.value, record.timestamp)
        if row is not None:
            found[place] = row
    there = ends() if found else {}
    return {place: row for place, row in found.items() if is_there(place, there)}


def is_there(place: HalfPosition, ends: Ends) -> bool:
    """Whether a half message may lie there; yes where nothing is known of the half topic."""
    return not ends or place.offset < ends.get(place.partition, 0)


def place_of(key: bytes | None) -> HalfPosition | None:
    """Which half message a record of ``cb.status`` is about; None when the job did not write it."""
    try:
        return HalfPosition.parse((key or b"").decode())
    except (UnicodeDecodeError, ProtocolError):
        return None


def row_of(place: HalfPosition, value: bytes | None, time_ms: int) -> InDoubt | None:
    """What such a record says; None when the transaction is not in doubt any more, or the job did not write it."""
    if value is None:
        return None
    try:
        row = in_doubt(value)
    except (ValueError, ProtocolError):
        return None
    dated = 0 < row.ingested_ms <= time_ms + _AHEAD_MS  # brokers take no time stamp that is far in the future
    return row if row.half == place and row.attempt > 0 and dated else None
