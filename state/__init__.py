"""The transaction state machine: pure functions on columns. It knows no Spark, no Kafka and no clock."""

from state.allowance import Allowance, Limits
from state.codec import segment_from_bytes, segment_to_bytes
from state.outcome_reading import RejectedOp, counts_of, rejected_op, rejected_record_offset, usages_of
from state.outcomes import NOT_WRITTEN, USAGE_COLUMNS, Collector, OutcomeKind
from state.policy import RULES_VERSION, Always, OnExhausted, Policies, Policy
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
from state.table import KEPT, SETTLED, TABLE, UNDECIDED, Effect, Event, State
from state.usage import Usage, Usages, summed, usage_of

__all__ = [
    "ANYWHERE",
    "BROKEN_FIELDS",
    "BUNDLE",
    "BYTES",
    "EARLY_FIELDS",
    "HALF_FIELDS",
    "KEPT",
    "MESSAGE_FIELDS",
    "NOT_WRITTEN",
    "OP_FIELDS",
    "OUTCOME_FIELDS",
    "RULES_VERSION",
    "SETTLED",
    "TABLE",
    "UNDECIDED",
    "USAGE_COLUMNS",
    "Allowance",
    "Always",
    "Arrivals",
    "Collector",
    "Effect",
    "Evaluation",
    "Event",
    "Fields",
    "Limits",
    "OnExhausted",
    "OutcomeKind",
    "Policies",
    "Policy",
    "Reach",
    "RejectedOp",
    "Rows",
    "Segment",
    "State",
    "Usage",
    "Usages",
    "counts_of",
    "evaluate",
    "rejected_op",
    "rejected_record_offset",
    "segment_from_bytes",
    "segment_to_bytes",
    "summed",
    "usage_of",
    "usages_of",
]
