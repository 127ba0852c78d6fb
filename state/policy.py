"""The numbers the rules go by."""

from dataclasses import dataclass

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True)
class Policy:
    """Times and bounds of the state machine, all in ms. Defaults are RocketMQ 5's where it has them."""

    transaction_timeout_ms: int = 6_000
    """From half message to first check (``transactionTimeOut``)."""
    check_interval_ms: int = 30_000
    """From one check to the next (``transactionCheckInterval``)."""
    check_max: int = 15
    """Answers without a verdict, after which a message is parked (``transactionCheckMax``)."""
    check_answer_ttl_ms: int = 2 * MINUTE_MS
    """A check not answered for so long is asked once more."""
    unreachable_backoff_max_ms: int = 5 * MINUTE_MS
    """Longest pause between two attempts to reach a producer group that nobody answers for."""
    age_limit_ms: int = 72 * HOUR_MS
    """A message undecided for so long is parked (``fileReservedTime``)."""
    early_op_ttl_ms: int = HOUR_MS
    """An op waits so long for its half message, and a decision is remembered so long."""
    early_op_max: int = 8_192
    """Ops that wait in one segment; one more is rejected."""
    timer_slack_ms: int = 1_000
    """Timers may fire late by so much, so that those of a segment fire together."""
    segment_size: int = 4_096
    """Offsets of the half topic in a segment; fixed for the life of a checkpoint."""
