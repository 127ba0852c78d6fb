"""The steps of a shop's transaction at which its death, or its database's, would be worst."""

from enum import StrEnum


class Step(StrEnum):
    """Where a shop is, on the thread of one sale."""

    HALF_WRITTEN = "after the half message, before the database transaction"
    RECORDED = "after the record, before the order"
    ORDERED = "after the order, before the database's commit"
    COMMITTING = "as the database commits"
    ANSWERED = "the database has committed, its answer is on the way"
    COMMITTED = "after the database's commit, before the op"
    OP_WRITTEN = "after the op"


DEADLY = tuple(step for step in Step if step is not Step.ANSWERED)
"""Where a shop is killed."""
ASLEEP = (Step.HALF_WRITTEN, Step.RECORDED, Step.ORDERED)
"""Where it is stopped for longer than several checks."""
