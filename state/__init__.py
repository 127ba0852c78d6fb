"""The transaction state machine: pure functions on columns. It knows no Spark, no Kafka and no clock."""

from state.codec import decode, encode
from state.outcomes import Kind
from state.policy import Policy
from state.rows import (
    BROKEN_FIELDS,
    BYTES,
    EARLY_FIELDS,
    HALF_FIELDS,
    OP_FIELDS,
    OPEN_FIELDS,
    OUTCOME_FIELDS,
    Fields,
    Rows,
)
from state.segment import Arrivals, Evaluation, Segment, evaluate
from state.table import DECIDED, TABLE, UNDECIDED, Event, Outcome, State

__all__ = [
    "BROKEN_FIELDS",
    "BYTES",
    "DECIDED",
    "EARLY_FIELDS",
    "HALF_FIELDS",
    "OPEN_FIELDS",
    "OP_FIELDS",
    "OUTCOME_FIELDS",
    "TABLE",
    "UNDECIDED",
    "Arrivals",
    "Evaluation",
    "Event",
    "Fields",
    "Kind",
    "Outcome",
    "Policy",
    "Rows",
    "Segment",
    "State",
    "decode",
    "encode",
    "evaluate",
]
