"""When timers are due, and what they do. Every time is passed in, and counts from the batch's ingest time."""

from dataclasses import dataclass

import numpy as np

from state.allowance import Allowance
from state.content import content_bytes
from state.lanes import unsettled
from state.outcomes import CHECK_PAYLOAD_BYTES, Collector
from state.policy import Policy
from state.rows import Column, Rows
from state.table import (
    FOR_OPERATORS,
    KEPT,
    UNDECIDED,
    Effect,
    EffectCodes,
    Event,
    EventCodes,
    State,
    StateCodes,
    delivers,
    transition,
)


def first_deadlines(messages: Rows, policy: Policy) -> Column:
    """int64[n] ms: when half messages just taken in are checked first.

    A message's own check immunity overrides the transaction timeout (RocketMQ's
    ``CHECK_IMMUNITY_TIME_IN_SECONDS``).
    """
    immunity = messages["immunity_ms"]
    wait = np.where(immunity >= 0, immunity, policy.transaction_timeout_ms)
    return _within_age(messages["ingested_ms"] + wait, messages["ingested_ms"], policy)


def postponed(messages: Rows, rows: Column, states: StateCodes, events: EventCodes, now_ms: int) -> EventCodes:
    """The events, with ``POSTPONED`` for each commit of a message that is to be delivered after ``now_ms``.

    ``rows[i]`` is the message that event i happens to, -1 for none.
    """
    later = delivers(states, events) & (rows >= 0)
    later[later] = messages["deliver_at_ms"][rows[later]] > now_ms
    return np.where(later, np.uint8(Event.POSTPONED), events)


def settle(messages: Rows, rows: Column, results: EffectCodes, now_ms: int, policy: Policy) -> None:
    """Set the next deadline of messages that are kept after such a result; changes them in place."""
    delayed, parked = rows[results == Effect.DELAY], rows[results == Effect.PARK]
    messages["deadline_ms"][delayed] = messages["deliver_at_ms"][delayed]
    messages["deadline_ms"][parked] = now_ms + policy.parked_ttl_ms
    resumed = rows[results == Effect.RESUME]
    for name, value in (("ingested_ms", now_ms), ("deadline_ms", now_ms), ("attempts", 0), ("misses", 0)):
        messages[name][resumed] = value


def end_status(messages: Rows, rows: Column, results: EffectCodes) -> None:
    """Note of messages that are kept, but not checked any more, that their status row has ended."""
    ended = rows[np.isin(results, (Effect.DELAY, Effect.PARK))]
    messages["asked_ms"][ended] = -1
    messages["answer"][ended] = ""


@dataclass(frozen=True)
class Answers:
    """Which of some events are answers to an outstanding check."""

    unknown: Column
    unreachable: Column
    after_all: Column
    """Those of ``unknown`` whose check had been answered *unreachable* before."""

    @property
    def any_kind(self) -> Column:
        """bool[n]: those that are."""
        either: Column = self.unknown | self.unreachable
        return either

    def apply(self, messages: Rows, rows: Column, now_ms: int, policy: Policy) -> None:
        """Count attempts and set the next deadline of the rows that were answered."""
        if self.unknown.any():
            messages["asked_ms"][rows[self.after_all]] = now_ms  # when it was, nobody says; it was not long ago
            asked = rows[self.unknown]
            messages["attempts"][asked] += 1
            messages["misses"][asked] = 0
            pause = _doubled(policy.check_interval_ms, messages["attempts"][asked], policy.check_interval_max_ms)
            following = messages["asked_ms"][asked] + pause
            messages["deadline_ms"][asked] = _within_age(following, messages["ingested_ms"][asked], policy)
        if self.unreachable.any():
            missed = rows[self.unreachable]
            messages["misses"][missed] += 1
            pause = _doubled(policy.check_interval_ms, messages["misses"][missed], policy.unreachable_backoff_max_ms)
            messages["deadline_ms"][missed] = _within_age(now_ms + pause, messages["ingested_ms"][missed], policy)


def after_answer(states: StateCodes, events: Column) -> Answers:
    """Find the answers to outstanding checks among pairs of state (before) and event."""
    outstanding = states == State.CHECKING
    after_all = events == Event.ANSWERED_AFTER_ALL
    return Answers(
        unknown=outstanding & (events == Event.CHECK_UNKNOWN) | after_all,
        unreachable=outstanding & (events == Event.CHECK_UNREACHABLE),
        after_all=after_all,
    )


def answered_after_all(messages: Rows, rows: Column, states: StateCodes, events: EventCodes) -> Column:
    """bool[n]: answers without a verdict to checks that were answered *unreachable* before.

    The check service asks such a check again as soon as somebody can be asked. The first answer counts: it ends the
    ``misses``.
    """
    found: Column = (states == State.OPEN) & (events == Event.CHECK_UNKNOWN)
    found[found] = messages["misses"][rows[found]] > 0
    return found


def fire_due(
    messages: Rows,
    ledger: StateCodes,
    first_offset: int,
    now_ms: int,
    policy: Policy,
    outcomes: Collector,
    allowance: Allowance,
) -> int | None:
    """Let timers fire whose deadline is not after ``now_ms``, as many as are allowed.

    Changes ledger and messages in place.

    Returns:
        In how many ms it is the turn of those that are left, None when none is.
    """
    slots = messages["offset"] - first_offset
    due = np.flatnonzero((messages["deadline_ms"] <= now_ms) & np.isin(ledger[slots], KEPT))
    if not due.size:
        return None
    due = due[np.lexsort((messages["offset"][due], messages["deadline_ms"][due]))]
    groups, sizes = messages["group"][due], _written_bytes(messages, due, ledger[slots[due]], now_ms, policy)
    allowed = allowance.take(groups, sizes)
    turn_ms = None if allowed.all() else allowance.put_off(groups[~allowed], sizes[~allowed])
    due = np.sort(due[allowed])
    if due.size:
        _fire(messages, due, ledger, slots, now_ms, policy, outcomes)
    return turn_ms


def _fire(
    messages: Rows, due: Column, ledger: StateCodes, slots: Column, now_ms: int, policy: Policy, outcomes: Collector
) -> None:
    states = ledger[slots[due]]
    outcomes.measured("timer_late", now_ms - messages["deadline_ms"][due])
    events = _due_events(messages, due, states, now_ms, policy)
    events = postponed(messages, due, states, events, now_ms)
    ledger[slots[due]], results = transition(states, events)
    outcomes.left_operators(messages, due, states, results)
    outcomes.given_up(messages, due, events, results)
    outcomes.decided(messages, due, results)
    asked = due[results == Effect.CHECK]
    first = messages["asked_ms"][asked] < 0
    messages["asked_ms"][asked] = now_ms
    answer_by = np.full(asked.size, now_ms + policy.check_answer_ttl_ms)
    messages["deadline_ms"][asked] = _within_age(answer_by, messages["ingested_ms"][asked], policy)
    outcomes.checks(messages.take(asked), first, policy)
    settle(messages, due, results, now_ms, policy)
    end_status(messages, due, results)


def next_timer(
    messages: Rows, waits_until_ms: int | None, idle_ms: int, policy: Policy, now_ms: int, turn_ms: int | None = None
) -> int:
    """When something is due in the segment, rounded up to ``timer_slack_ms`` so that timers fire together.

    ``waits_until_ms`` is when ops that wait are to be looked at, None for none; ``idle_ms`` when there is nothing else.
    Timers that were left are due ``turn_ms`` ms after ``now_ms``; not rounded up, since they are late already.
    """
    deadlines = messages["deadline_ms"]
    if turn_ms is not None:
        deadlines = deadlines[deadlines > now_ms]
    ends = [int(deadlines.min())] if deadlines.size else []
    ends += [] if waits_until_ms is None else [waits_until_ms]
    earliest = min(ends, default=idle_ms)
    slack = max(policy.timer_slack_ms, 1)
    following = -(-earliest // slack) * slack
    return following if turn_ms is None else min(following, now_ms + turn_ms)


def _written_bytes(messages: Rows, due: Column, states: StateCodes, now_ms: int, policy: Policy) -> Column:
    """int64[n]: bytes of content that are written at most when these timers fire."""
    aged, exhausted = _given_up(messages, due, states, now_ms, policy)
    sizes = content_bytes(messages.take(due))
    checked = np.isin(states, UNDECIDED) & ~aged & ~exhausted
    sizes[checked] = np.minimum(sizes[checked], CHECK_PAYLOAD_BYTES)
    sizes[np.isin(states, FOR_OPERATORS)] = 0
    return sizes


def _given_up(messages: Rows, due: Column, states: StateCodes, now_ms: int, policy: Policy) -> tuple[Column, Column]:
    """bool[n] each: too old, and checked in vain as often as is allowed.

    Of a lane that nobody has settled nobody knows enough to give up: it is asked for again, until it is too old.
    """
    check_max = policy.check_max_of(messages["check_max"][due])
    aged = np.isin(states, UNDECIDED) & (now_ms - messages["ingested_ms"][due] >= policy.age_limit_ms)
    exhausted = ~aged & (states == State.OPEN) & (messages["attempts"][due] >= check_max)
    return aged, exhausted & ~unsettled(messages, due)


def _due_events(messages: Rows, due: Column, states: StateCodes, now_ms: int, policy: Policy) -> EventCodes:
    aged, exhausted = _given_up(messages, due, states, now_ms, policy)
    expired = np.isin(states, FOR_OPERATORS)
    events = np.select([aged, expired], [Event.AGED, Event.EXPIRED], Event.DUE).astype(np.uint8)
    if exhausted.any():
        events[exhausted] = policy.on_exhausted(messages.take(due[exhausted]))
    return events


def _doubled(first_ms: int, times: Column, most_ms: int) -> Column:
    """int64[n] ms: ``first_ms`` for the first time, twice that for the second, ..., up to ``most_ms``."""
    doubled = first_ms * 2 ** np.minimum(times - 1, 20).astype(np.int64)
    waits: Column = np.minimum(doubled, max(most_ms, first_ms))
    return waits


def _within_age(deadline_ms: Column, ingested_ms: Column, policy: Policy) -> Column:
    limited: Column = np.minimum(deadline_ms, ingested_ms + policy.age_limit_ms)
    return limited
