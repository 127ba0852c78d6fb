"""Reads rows of outcomes whose columns hold something else than they are named for; ``Collector`` writes them.

Rows that need one number or two more than others have them in columns that are of no use to them. That is known in
``state/outcomes.py`` and here, and nowhere else.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from checkback.wire.lanes import LaneFact
from state.open_by_topic import OpenByTopic, OpenOf
from state.outcome_kinds import USAGE_COLUMNS, OutcomeKind
from state.outcomes import (
    ANSWER_END,
    CHECK_LANE,
    DELIVER_UNCOUNTED,
    STATUS_ASKED_AGO,
    STATUS_MISSES,
    STATUS_PAUSE,
    Tallies,
    Tally,
)
from state.usage import Usage, Usages, summed

_PLAIN = -1


class RejectedOp(NamedTuple):
    """What a row of ``OutcomeKind.REJECT_OP`` says of the op."""

    action: str
    source: str
    """Empty, and ids and groups where they are not known: of a claim that was kept, see :mod:`state.claims`."""
    fact: LaneFact | None
    """What it says of a lane."""
    offset: int
    """In the op topic."""


class AnswerTold(NamedTuple):
    """What a row of ``OutcomeKind.STATUS`` that an answer has made says of it; ``reason`` is which answer."""

    asked_ago_ms: int
    """How long before the answer its check was asked for."""
    misses: int
    """For how many checks in a row, this one included, nobody could be asked."""
    remark: str


class Counts(NamedTuple):
    """What the rows of ``OutcomeKind.COUNT`` add."""

    plain: Counter[str]
    told_apart: Tallies


def counts_of(outcomes: pa.RecordBatch) -> Counts:
    """What the rows of ``OutcomeKind.COUNT`` add to each counter."""
    rows = outcomes.filter(pc.equal(outcomes.column("kind"), int(OutcomeKind.COUNT)))
    counts = Counts(Counter(), Counter())
    columns = [rows.column(name).to_pylist() for name in ("reason", "group", "attempt", "half_offset")]
    for name, group, size, number in zip(*columns, strict=True):
        if size == _PLAIN:
            counts.plain[name] += number
        else:
            counts.told_apart[Tally(name, group, size)] += number
    return counts


def add_open(outcomes: pa.RecordBatch, found: dict[tuple[int, int], OpenByTopic]) -> None:
    """Add what the rows of ``OutcomeKind.OPEN`` say of segments, by half partition and first offset.

    Spark cuts rows into pieces wherever one has enough: those of a segment may be in two.
    """
    rows = outcomes.filter(pc.equal(outcomes.column("kind"), int(OutcomeKind.OPEN)))
    names = ("half_partition", "half_offset", "group", "topic", "attempt", "ingested_ms")
    for partition, offset, group, topic, number, oldest_ms in zip(
        *(rows.column(name).to_pylist() for name in names), strict=True
    ):
        segment = found.setdefault((partition, offset), {})
        if number:
            segment[group, topic] = OpenOf(number, oldest_ms)


def usages_of(outcomes: pa.RecordBatch) -> Usages:
    """How the rows of ``OutcomeKind.USAGE`` change the usage of each group."""
    rows = outcomes.filter(pc.equal(outcomes.column("kind"), int(OutcomeKind.USAGE)))
    columns = [rows.column(name).to_pylist() for name in ("group", *USAGE_COLUMNS)]
    return summed([{group: Usage(*numbers)} for group, *numbers in zip(*columns, strict=True)])


def rejected_op(row: Mapping[str, Any]) -> RejectedOp:
    """Of a row of ``OutcomeKind.REJECT_OP``."""
    action, source, *fact = row["topic"].split("/")
    return RejectedOp(action, source, LaneFact(fact[0]) if fact else None, row["ingested_ms"])


def parked_for(row: Mapping[str, Any]) -> tuple[str, str]:
    """Of a row of ``OutcomeKind.PARK``: why it is parked, and what its last check came to; each may be empty."""
    answer, _, reason = row["reason"].rpartition(ANSWER_END)
    return reason, answer


def delivered_uncounted(row: Mapping[str, Any]) -> bool:
    """Of a row of ``OutcomeKind.DELIVER`` or ``DELIVER_BUNDLE``: whether no usage has had the message."""
    return bool(row[DELIVER_UNCOUNTED] == 1)


def lane_checked(row: Mapping[str, Any]) -> str:
    """Of a row of ``OutcomeKind.CHECK``: the lane that its half message names; empty: none."""
    return str(row[CHECK_LANE] or "")


def rejected_record_offset(row: Mapping[str, Any]) -> int:
    """Of a row of ``OutcomeKind.REJECT_RECORD``: the record's own offset, in the topic that the row names."""
    return int(row["half_offset"])


def status_pause_ms(row: Mapping[str, Any]) -> int:
    """Of a row of ``OutcomeKind.STATUS``: in how many ms the next check comes."""
    return int(row[STATUS_PAUSE])


def answer_told(row: Mapping[str, Any]) -> AnswerTold | None:
    """Of a row of ``OutcomeKind.STATUS``; None of one that the first check has made."""
    if row[STATUS_ASKED_AGO] < 0:
        return None
    remark = (row["value"] or b"").decode(errors="replace")
    return AnswerTold(int(row[STATUS_ASKED_AGO]), int(row[STATUS_MISSES]), remark)
