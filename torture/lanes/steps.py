"""The steps of a lane, and of who settles it, at which death or a long sleep would be worst."""

from enum import StrEnum


class LaneStep(StrEnum):
    """Where a producer is, on the thread of its lane."""

    BEFORE = "before its Kafka transaction"
    MESSAGES_WRITTEN = "after the messages, before the ledger"
    LEDGER_ADDED = "after the ledger, before the commit"
    COMMIT_UNDER_WAY = "while Kafka commits"
    COMMITTED = "after the commit, before its ops"
    OPS_SENT = "after its ops were sent, before they are acknowledged"
    SETTLING_ITSELF = "when its lane is lost, before it settles it"


class SettlingStep(StrEnum):
    """Where a check service is with a lane."""

    FENCING = "before it fences a lane"
    FENCED = "after a lane was fenced, before its ledger is read"
    LEDGER_READ = "after a ledger was read, before the op"


OF_TRANSACTION = tuple(step for step in LaneStep if step is not LaneStep.SETTLING_ITSELF)
