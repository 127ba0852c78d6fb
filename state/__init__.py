"""The transaction state machine: pure functions on columns. It knows no Spark, no Kafka and no clock."""

from state.codec import decode, encode
from state.outcomes import Kind
from state.policy import RULES_VERSION, AfterCheckMax, Always, Policies, Policy
from state.rows import (
    BROKEN_FIELDS,
    BUNDLE,
    BYTES,
    EARLY_FIELDS,
    HALF_FIELDS,
    MESSAGE_FIELDS,
    OP_FIELDS,
    OUTCOME_FIELDS,
    Fields,
    Rows,
)
from state.segment import ANYWHERE, Arrivals, Evaluation, Reach, Segment, evaluate
from state.table import KEPT, SETTLED, TABLE, UNDECIDED, Event, Outcome, State

__all__ = [
    "ANYWHERE",
    "BROKEN_FIELDS",
    "BUNDLE",
    "BYTES",
    "EARLY_FIELDS",
    "HALF_FIELDS",
    "KEPT",
    "MESSAGE_FIELDS",
    "OP_FIELDS",
    "OUTCOME_FIELDS",
    "RULES_VERSION",
    "SETTLED",
    "TABLE",
    "UNDECIDED",
    "AfterCheckMax",
    "Always",
    "Arrivals",
    "Evaluation",
    "Event",
    "Fields",
    "Kind",
    "Outcome",
    "Policies",
    "Policy",
    "Reach",
    "Rows",
    "Segment",
    "State",
    "decode",
    "encode",
    "evaluate",
]
