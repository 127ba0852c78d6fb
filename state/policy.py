"""The numbers and choices the rules go by."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkback.exceptions import JobStoppedError
from state.rows import Column, Rows
from state.table import Event, EventCodes

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

RULES_VERSION = 11
"""Raised with every change after which the same records, time, state and policy give other outcomes or another state,
or an outcome in another segment, which may be another state partition's: here, or in ``decode.py``, ``arrivals.py`` or
``segments.py`` of ``streaming/stateful/``. A new field of the policy does not count if its default does what was done
before. A batch that is in Kafka in part is not run again under another version.

11: twice as many timers of one group fire in a batch.
10: half messages of lanes, and ops that say what a lane has done; what is kept of these before their half message;
three times as many timers fire in a batch.
9: what breaks the protocol is rejected by the segment that it belongs to, and no longer beside all segments.
8: a status is written with the first check, and then with each answer instead of with the next check.
7: of several messages in a half, what is missing is null.
6: fewer timers fire in a batch.
5: large content is set aside; commits of more of it than one batch may write are delivered later; half as many
timers fire in a batch.
4: sizes are limited, of several messages in one half message by what they unfold to; ops whose half message cannot come
any more, or is behind the end of its log, do not wait.
3: timers of a batch are bounded; a status that says nothing new is not written; checks have no large values.
2: timers without rows go by the batch's own time. 1: by that of the batch before; versions were not kept.
"""

OnExhausted = Callable[[Rows], EventCodes]
"""What becomes of messages whose attempts are used up: from n rows (``MESSAGE_FIELDS``) to uint8[n], each
``EXHAUSTED`` (park), ``EXHAUSTED_COMMIT`` or ``EXHAUSTED_ROLLBACK``. A batch may be run again: the answer
must depend on the message alone."""


@dataclass(frozen=True)
class Always:
    """The same for every message."""

    event: Event

    def __call__(self, messages: Rows) -> EventCodes:
        """uint8[n] of ``event``."""
        return np.full(messages.count, self.event, dtype=np.uint8)


@dataclass(frozen=True)
class Policy:
    """Times and bounds of the state machine, all in ms. Defaults are RocketMQ 5's where it has them."""

    transaction_timeout_ms: int = 6_000
    """From half message to first check (``transactionTimeOut``)."""
    check_interval_ms: int = 30_000
    """From one check to the next (``transactionCheckInterval``)."""
    check_interval_max_ms: int = 30_000
    """The pause doubles with each answer without a verdict, up to this; equal to the interval, it is fixed."""
    check_max: int = 15
    """Answers without a verdict, after which ``on_exhausted`` decides (``transactionCheckMax``)."""
    on_exhausted: OnExhausted = Always(Event.EXHAUSTED)
    """RocketMQ's ``AbstractTransactionalMessageCheckListener.resolveDiscardMsg``; parks as that does."""
    late_end_needs_check: bool = False
    """After a message's own check immunity only a check or an operator decides (``rejectCommitOrRollback``)."""
    check_answer_ttl_ms: int = 2 * HOUR_MS
    """A check not answered within this time is asked again."""
    unreachable_backoff_max_ms: int = 5 * MINUTE_MS
    """Longest pause between two attempts to reach a producer group that nobody answers for."""
    age_limit_ms: int = 72 * HOUR_MS
    """A message that stays undecided for this time is parked (``fileReservedTime``)."""
    delay_max_ms: int = 7 * 24 * HOUR_MS
    """A message that asks to be delivered later than that is rejected (``timerMaxDelaySec``)."""
    parked_ttl_ms: int = 7 * 24 * HOUR_MS
    """A parked message is kept for this time, for an operator to decide on, or to resume; more than 0."""
    early_op_ttl_ms: int = HOUR_MS
    """An op waits for its half message for this time, and a decision is remembered as long."""
    early_op_max: int = 8_192
    """Ops that wait in one segment; one more is rejected."""
    claims_max: int = 4
    """Different ops, by id and group, that are kept of one place and say that a lane has delivered its half message,
    which has not been read; with one more that is parked when it comes. A lane's own are one."""
    tables: bool = False
    """Whether what lanes have delivered is told of, message by message: tables are to get it."""
    timer_slack_ms: int = 1_000
    """Timers may fire late by so much, so that those of a segment fire together."""
    segment_size: int = 4_096
    """Offsets of the half topic in a segment; fixed for the life of a checkpoint."""
    retry_prefix: str = ""
    """Of the topics of retries: see :func:`state.usage.usage_of`."""

    def check_max_of(self, own: Column) -> Column:
        """int[n]: the check max that holds for messages with these of their own, -1 for none."""
        return np.where(own >= 0, own, self.check_max)


@dataclass(frozen=True)
class Policies:
    """Policies by the number of the first batch that each holds for."""

    since: tuple[tuple[int, Policy], ...]
    """In the order of their batches."""

    def of_batch(self, batch: int) -> Policy:
        """The policy of a batch.

        Raises:
            JobStoppedError: it comes before all of them.
        """
        found = [policy for start, policy in self.since if start <= batch]
        if not found:
            raise JobStoppedError(f"Spark runs batch {batch} again, which had been finished when the job started.")
        return found[-1]
