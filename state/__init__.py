"""The transaction state machine: pure functions on columns. It knows no Spark, no Kafka and no clock."""

from state.allowance import Allowance, Limits
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
from state.segment import Arrivals, Evaluation, Segment, evaluate
from state.table import KEPT, SETTLED, TABLE, UNDECIDED, Event, Outcome, State

__all__ = [
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
    "Allowance",
    "Always",
    "Arrivals",
    "Evaluation",
    "Event",
    "Fields",
    "Kind",
    "Limits",
    "Outcome",
    "Policies",
    "Policy",
    "Rows",
    "Segment",
    "State",
    "decode",
    "encode",
    "evaluate",
]
