"""Transactions in doubt, for people: what lies in ``cb.status``.

One row for each transaction that was checked at least once and is still undecided. The topic is compacted: reading it
from its beginning gives them all.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.protocol import HalfPosition

_NOT_OURS = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, ProtocolError)
"""What comes of reading a row that the job did not write: anybody may have."""


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
    """What came of the check before that: ``unknown``, ``unreachable``; empty when it was the first."""
    next_check_ms: int = 0
    """When they are asked again, unless their answer decides it; later, where nobody can be reached. 0: not known."""


def in_doubt(value: bytes, time_ms: int) -> InDoubt:
    """Read a record's value; ``time_ms`` is its time stamp.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, ProtocolError: the job did
            not write it.
    """
    row: dict[str, Any] = json.loads(value)
    named = "transaction_id" if "transaction_id" in row else "id"  # rows of before 0.1.0 have the latter
    return InDoubt(
        transaction_id=str(row[named]),
        group=str(row["group"]),
        topic=str(row["topic"]),
        half=HalfPosition.parse(row["half"]),
        attempt=int(row["attempt"]),
        check_max=int(row["check_max"]),
        ingested_ms=int(row["ingested_ms"]),
        asked_ms=int(row.get("asked_ms", time_ms)),
        last_answer=str(row.get("last_answer", "")),
        next_check_ms=int(row.get("next_check_ms", 0)),
    )


def newest(records: Iterable[Any]) -> dict[HalfPosition, InDoubt]:
    """The transactions that are in doubt after these records of ``cb.status``, those last checked at the end.

    The topic may have been written to by others, and by earlier versions, whose keys were transaction ids: what does
    not lie under its own place is passed over.
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
    return found


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
        row = in_doubt(value, time_ms)
    except _NOT_OURS:
        return None
    return row if row.half == place else None
