"""Tables as plain numpy columns, and the columns of each table the state machine knows.

A text or bytes column is an object array of ``str`` or ``bytes``, with None for null; all others have the
dtype given here. A pandas frame would do the same for ten times the cost of a call on a few rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Fields = Mapping[str, Any]

BUNDLE = -2
"""Partition of a half message whose value is several messages, each with a topic and partition of its own."""

NO_LANE, UNSETTLED_LANE, SETTLED_LANE, CONTESTED_LANE = -1, 0, 1, 2
"""Whether a half message's producer may deliver it itself; it is known that it has not, and never will; or its lane's
ledger may have forgotten it: then only its real topic tells."""

BYTES = frozenset({"key", "value"})
"""Which object columns hold bytes; all others hold text."""

_MESSAGE: Fields = {
    "offset": np.int64,  # in the half topic
    "transaction_id": object,  # str
    "group": object,  # str
    "topic": object,  # str: the real topic
    "partition": np.int32,  # of the real topic; -1: the partitioner's choice; BUNDLE: see there
    "key": object,  # bytes or None
    "value": object,  # bytes or None
    "headers": object,  # str or None: headers as Spark's to_json gives them; the protocol's own are for nobody to see
    "immunity_ms": np.int64,  # -1: the policy's transaction timeout
    "check_max": np.int32,  # -1: the policy's
    "deliver_at_ms": np.int64,  # not to be delivered before; -1: at once
    "left_out": np.int64,  # bytes of its content that are not here: see state.content; -1: all is here
    "lane": np.int8,  # NO_LANE, UNSETTLED_LANE, SETTLED_LANE or CONTESTED_LANE
    "lane_name": object,  # str or None: cb-lane
}

HALF_FIELDS: Fields = {
    **_MESSAGE,
    "event": np.uint8,  # HALF, or what else a half message may be: a member of state.table.Event
    "held": np.int8,  # 1: the job wrote it, because the topic did not take the message; -1: a producer did
}
"""A half message as it arrives."""

MESSAGE_FIELDS: Fields = {
    **_MESSAGE,
    "ingested_ms": np.int64,  # when the query took it in
    "deadline_ms": np.int64,  # when the next timer event is due
    "asked_ms": np.int64,  # when the last check was asked for; -1: never, or parked or delayed since
    "attempts": np.int32,  # checks answered without a verdict
    "misses": np.int32,  # checks in a row for which nobody could be asked
    "answer": object,  # str: what the last answered check came to; empty: nothing yet, or parked or delayed since
}
"""A half message that is undecided, parked, undeliverable or delayed, as a segment keeps it."""

_OP: Fields = {
    "half_offset": np.int64,
    "op_offset": np.int64,  # in the op topic: the order in which ops of a half are judged
    "event": np.uint8,  # a member of state.table.Event
    "transaction_id": object,  # str
    "group": object,  # str
    "action": object,  # str, as written
    "source": object,  # str, as written
    "key": object,  # bytes or None
    "value": object,  # bytes or None: the remark
    "headers": object,  # str or None: all headers, when they are not just the five every op has
    "settled": np.int8,  # 1: it says that the half message's lane has not delivered it, and never will; else 0
}

OP_FIELDS: Fields = {
    **_OP,
    "time_ms": np.int64,  # Kafka's, of the record; -1: not known. Nothing depends on it but what is measured
}
"""An op as it arrives."""

EARLY_FIELDS: Fields = {
    **_OP,
    "came_ms": np.int64,  # when the query took it in
}
"""An op that waits for its half message, as a segment keeps it."""

CLAIM_FIELDS: Fields = {
    "half_offset": np.int64,
    "op_offset": np.int64,
    "digest": np.int64,  # of id and group; see state.claims
}
"""What is kept of an op that says that a lane has delivered a half message which has not been seen: see
:mod:`state.claims`."""

BROKEN_FIELDS: Fields = {
    "topic": object,  # str: where the record came from
    "offset": np.int64,
    "key": object,
    "value": object,
    "headers": object,  # str or None: all headers
    "left_out": np.int64,  # as a half message's
    "reason": object,  # str
}
"""A record that breaks the protocol."""

OUTCOME_FIELDS: Fields = {
    "kind": np.int8,  # a member of state.outcomes.OutcomeKind
    "transaction_id": object,
    "group": object,
    "topic": object,
    "partition": np.int32,
    "key": object,
    "value": object,
    "headers": object,
    "half_offset": np.int64,
    "attempt": np.int32,
    "check_max": np.int32,
    "ingested_ms": np.int64,
    "left_out": np.int64,  # bytes of the content that are not here; -1: all is here
    "reason": object,
}
"""A thing to be written, or counted."""


class Rows(Mapping[str, Column]):
    """A table: columns of one length, by name. Values are replaced in place, columns are not."""

    __slots__ = ("_columns",)

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    @classmethod
    def empty(cls, fields: Fields) -> Self:
        """No rows."""
        return cls({name: np.empty(0, dtype) for name, dtype in fields.items()})

    @classmethod
    def blank(cls, fields: Fields, count: int) -> Self:
        """``count`` rows of -1 in every number, "" in every text and None in every bytes column.

        Not None in texts: pandas looks through a column that begins with None for anything that is not.
        """

        def nothing(name: str) -> object:
            return -1 if fields[name] is not object else None if name in BYTES else ""

        return cls({name: np.full(count, nothing(name), dtype) for name, dtype in fields.items()})

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """All rows of the parts, which have the same columns, in their order."""
        filled = [part for part in parts if part.count] or list(parts[:1])
        if len(filled) == 1:
            return filled[0]
        return cls({name: np.concatenate([part[name] for part in filled]) for name in filled[0]})

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(next(iter(self._columns.values())))

    def take(self, index: Column) -> Self:
        """The rows that a boolean mask or integer index chooses, copied."""
        return type(self)({name: column[index] for name, column in self._columns.items()})

    def with_columns(self, **columns: Column) -> Self:
        """The same rows with further columns."""
        return type(self)({**self._columns, **columns})

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def rank(codes: Column) -> Column:
    """int64[n]: 0 for the first of a code, 1 for the second, ..."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(codes)])
    ranks = np.empty(len(codes), dtype=np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks


def objects(values: Sequence[Any]) -> Column:
    """An object column, also of values numpy would make a matrix of."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
