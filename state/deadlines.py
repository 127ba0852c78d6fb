"""When timers are due, and what they do. Every time is passed in, and counts from the batch's ingest time."""

from dataclasses import dataclass

import numpy as np

from state.outcomes import Collector
from state.policy import Policy
from state.rows import Column, Rows
from state.table import Event, EventCodes, Outcome, State, StateCodes, transition


def first_deadlines(open_rows: Rows, policy: Policy) -> Column:
    """int64[n] ms: when half messages just taken in are checked first.

    A message's own check immunity goes before the transaction timeout (RocketMQ's
    ``CHECK_IMMUNITY_TIME_IN_SECONDS``).
    """
    immunity = open_rows["immunity_ms"]
    wait = np.where(immunity >= 0, immunity, policy.transaction_timeout_ms)
    return _within_age(open_rows["born_ms"] + wait, open_rows["born_ms"], policy)


@dataclass(frozen=True)
class Answers:
    """Which of some events are answers to an outstanding check."""

    unknown: Column
    unreachable: Column

    def apply(self, open_rows: Rows, rows: Column, now_ms: int, policy: Policy) -> None:
        """Count attempts and set the next deadline of the rows that were answered."""
        if self.unknown.any():
            asked = rows[self.unknown]
            open_rows["attempts"][asked] += 1
            open_rows["misses"][asked] = 0
            following = open_rows["asked_ms"][asked] + policy.check_interval_ms
            open_rows["deadline_ms"][asked] = _within_age(following, open_rows["born_ms"][asked], policy)
        if self.unreachable.any():
            missed = rows[self.unreachable]
            open_rows["misses"][missed] += 1
            following = now_ms + _backoff(open_rows["misses"][missed], policy)
            open_rows["deadline_ms"][missed] = _within_age(following, open_rows["born_ms"][missed], policy)


def after_answer(states: StateCodes, events: Column) -> Answers:
    """Find the answers to outstanding checks among pairs of state (before) and event."""
    outstanding = states == State.CHECKING
    return Answers(
        unknown=outstanding & (events == Event.CHECK_UNKNOWN),
        unreachable=outstanding & (events == Event.CHECK_UNREACHABLE),
    )


def fire_due(
    open_rows: Rows, ledger: StateCodes, first_offset: int, now_ms: int, policy: Policy, made: Collector
) -> None:
    """Let every timer fire whose deadline is not after ``now_ms``; changes ledger and rows in place."""
    places = open_rows["offset"] - first_offset
    due = np.flatnonzero((open_rows["deadline_ms"] <= now_ms) & np.isin(ledger[places], (State.OPEN, State.CHECKING)))
    if not due.size:
        return
    events = _due_events(open_rows, due, ledger[places[due]], now_ms, policy)
    following, results = transition(ledger[places[due]], events)
    ledger[places[due]] = following
    asked = due[results == Outcome.CHECK]
    open_rows["asked_ms"][asked] = now_ms
    answer_by = np.full(asked.size, now_ms + policy.check_answer_ttl_ms)
    open_rows["deadline_ms"][asked] = _within_age(answer_by, open_rows["born_ms"][asked], policy)
    made.timers(open_rows.take(due), events, results, policy)


def next_timer(open_rows: Rows, early: Rows, touched_ms: int, policy: Policy) -> int:
    """When something is due in the segment, rounded up to ``timer_slack_ms`` so that timers fire together."""
    forgotten_ms = touched_ms + policy.early_op_ttl_ms
    earliest = int(open_rows["deadline_ms"].min()) if open_rows.count else forgotten_ms
    if early.count:
        earliest = min(earliest, int(early["came_ms"].min()) + policy.early_op_ttl_ms)
    slack = max(policy.timer_slack_ms, 1)
    return -(-earliest // slack) * slack


def _due_events(open_rows: Rows, due: Column, states: StateCodes, now_ms: int, policy: Policy) -> EventCodes:
    own = open_rows["check_max"][due]
    check_max = np.where(own >= 0, own, policy.check_max)
    exhausted = (open_rows["attempts"][due] >= check_max) & (states == State.OPEN)
    aged = now_ms - open_rows["born_ms"][due] >= policy.age_limit_ms
    return np.select([aged, exhausted], [Event.AGED, Event.EXHAUSTED], Event.DUE).astype(np.uint8)


def _backoff(misses: Column, policy: Policy) -> Column:
    doubled = policy.check_interval_ms * 2 ** np.minimum(misses - 1, 20).astype(np.int64)
    waits: Column = np.minimum(doubled, max(policy.unreachable_backoff_max_ms, policy.check_interval_ms))
    return waits


def _within_age(deadline_ms: Column, born_ms: Column, policy: Policy) -> Column:
    limited: Column = np.minimum(deadline_ms, born_ms + policy.age_limit_ms)
    return limited
