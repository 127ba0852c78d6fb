"""Reads rows of outcomes whose columns hold something else than they are named for; ``Collector`` writes them.

Rows that need one number or two more than others have them in columns that are of no use to them. That is known in
``state/outcomes.py`` and here, and nowhere else.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from state.outcomes import USAGE_COLUMNS, OutcomeKind
from state.usage import Usage, Usages, summed


class RejectedOp(NamedTuple):
    """What a row of ``OutcomeKind.REJECT_OP`` says of the op."""

    action: str
    source: str
    offset: int
    """In the op topic."""


def counts_of(outcomes: pa.RecordBatch) -> Counter[str]:
    """What the rows of ``OutcomeKind.COUNT`` add to each counter."""
    rows = outcomes.filter(pc.equal(outcomes.column("kind"), int(OutcomeKind.COUNT)))
    counts: Counter[str] = Counter()
    for name, number in zip(rows.column("reason").to_pylist(), rows.column("half_offset").to_pylist(), strict=True):
        counts[name] += number
    return counts


def usages_of(outcomes: pa.RecordBatch) -> Usages:
    """How the rows of ``OutcomeKind.USAGE`` change the usage of each group."""
    rows = outcomes.filter(pc.equal(outcomes.column("kind"), int(OutcomeKind.USAGE)))
    columns = [rows.column(name).to_pylist() for name in ("group", *USAGE_COLUMNS)]
    return summed([{group: Usage(*numbers)} for group, *numbers in zip(*columns, strict=True)])


def rejected_op(row: Mapping[str, Any]) -> RejectedOp:
    """Of a row of ``OutcomeKind.REJECT_OP``."""
    action, _, source = row["topic"].partition("/")
    return RejectedOp(action, source, row["ingested_ms"])


def rejected_record_offset(row: Mapping[str, Any]) -> int:
    """Of a row of ``OutcomeKind.REJECT_RECORD``: the record's own offset, in the topic that the row names."""
    return int(row["half_offset"])
