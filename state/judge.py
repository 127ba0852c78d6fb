"""Judges ops: the k-th op of every half message at once, for k = 1, 2, ..."""

import numpy as np

from state.allowance import Allowance
from state.deadlines import after_answer, answered_after_all, end_status, postponed, settle
from state.lanes import note_settled, of_lanes
from state.outcomes import Collector, answer_texts
from state.policy import Policy
from state.rows import Column, Rows
from state.table import KEPT, SETTLED, UNDECIDED, Effect, Event, EventCodes, State, StateCodes, delivers, transition


def judge(  # noqa: PLR0913, PLR0917  (the segment's parts, then the batch's)
    messages: Rows,
    ledger: StateCodes,
    first_offset: int,
    ops: Rows,
    now_ms: int,
    policy: Policy,
    allowance: Allowance,
    outcomes: Collector,
) -> None:
    """Apply ops whose half messages are all in the ledger, in the order of the op topic.

    A commit of content that would have to be read again, and that ``allowance`` has no room for, is put off: then the
    message is delayed, and due at once. Changes ``ledger`` and the counters of ``messages`` in place; what follows goes
    to ``outcomes``.
    """
    slots = ops["half_offset"] - first_offset
    order = np.lexsort((ops["op_offset"], slots))
    ops, slots = ops.take(order), slots[order]
    rows = _row_of_place(messages, ledger, first_offset)[slots]
    foreign = _foreign(messages, rows, ops)
    remaining, rank = np.arange(ops.count), _rank(slots)
    results = np.full(ops.count, Effect.NONE, dtype=np.uint8)
    taken_for = ops["event"].copy()
    changed, answers = np.zeros(ops.count, dtype=bool), np.zeros(ops.count, dtype=bool)
    turn = 0
    while remaining.size:
        # No op leaves such a state, so all further ops of the half message can be looked up together.
        settled = np.isin(ledger[slots[remaining]], SETTLED)
        now = remaining[settled | (rank[remaining] == turn)]
        states = ledger[slots[now]]
        events = np.where(foreign[now] & np.isin(states, KEPT), np.uint8(Event.FOREIGN), ops["event"][now])
        note_settled(messages, rows[now], ops["settled"][now], events)
        events = of_lanes(messages, rows[now], states, events, ops["settled"][now])
        if policy.late_end_needs_check:
            events[_late(messages, rows[now], states, events, now_ms)] = Event.LATE
        events[answered_after_all(messages, rows[now], states, events)] = Event.ANSWERED_AFTER_ALL
        events = postponed(messages, rows[now], states, events, now_ms)
        events = _put_off(messages, rows[now], states, events, allowance)
        taken_for[now] = events
        following, results[now] = transition(states, events)
        outcomes.count_answers(ops, now, states, results[now])
        outcomes.left_operators(messages, rows[now], states, results[now])
        answered = after_answer(states, events)
        changed[now] = (following != states) | answered.any_kind
        answers[now] = answered.any_kind
        ledger[slots[now]] = following
        answered.apply(messages, rows[now], now_ms, policy)
        settle(messages, rows[now], results[now], now_ms, policy)
        remaining = remaining[~settled & (rank[remaining] != turn)]
        turn += 1
    outcomes.count_judged(changed, results)
    if answers.any():
        answers &= ledger[slots] == State.OPEN  # not decided by a later op
        told = np.flatnonzero(answers)
        told = told[np.r_[rows[told][1:] != rows[told][:-1], True]] if told.size else told  # the last one of each
        messages["answer"][rows[told]] = answer_texts(messages["misses"][rows[told]], ops["value"][told])
        outcomes.answered(messages.take(rows[told]), ops["value"][told], now_ms, policy)
    ended = (rows >= 0) & np.isin(results, (Effect.DELIVER, Effect.BY_LANE, Effect.DELAY, Effect.DISCARD))
    outcomes.measured("decision", now_ms - messages["ingested_ms"][rows[ended]])
    delivered = ended & (results == Effect.DELIVER)
    decided_ms = ops["time_ms"][delivered]
    outcomes.measured("delivery", now_ms - np.where(decided_ms >= 0, decided_ms, now_ms))
    outcomes.decided(messages, rows, results)
    end_status(messages, rows, results)
    outcomes.refused(ops, taken_for, results)


def _late(messages: Rows, rows: Column, states: StateCodes, events: EventCodes, now_ms: int) -> Column:
    """bool[n]: a producer's decision on an undecided message whose own check immunity is over."""
    late: Column = np.isin(events, (Event.COMMIT, Event.ROLLBACK)) & np.isin(states, UNDECIDED)
    immunity, ingested_ms = messages["immunity_ms"][rows[late]], messages["ingested_ms"][rows[late]]
    late[late] = (immunity >= 0) & (now_ms - ingested_ms > immunity)
    return late


def _put_off(messages: Rows, rows: Column, states: StateCodes, events: EventCodes, allowance: Allowance) -> EventCodes:
    """The events, with ``POSTPONED`` for each commit of large content that this batch has no room for."""
    large = delivers(states, events) & (rows >= 0)
    large[large] = messages["left_out"][rows[large]] >= 0
    if not large.any():
        return events
    late = large.copy()
    late[large] = ~allowance.take_commits(messages["left_out"][rows[large]])
    return np.where(late, np.uint8(Event.POSTPONED), events)


def _row_of_place(messages: Rows, ledger: StateCodes, first_offset: int) -> Column:
    """int64[segment_size]: which row of ``messages`` a place of the ledger is, -1 for none."""
    rows = np.full(len(ledger), -1, dtype=np.int64)
    rows[messages["offset"] - first_offset] = np.arange(messages.count)
    return rows


def _foreign(messages: Rows, rows: Column, ops: Rows) -> Column:
    """bool[ops]: the op names another transaction id or group than the half message it points at, if that is kept."""
    foreign = np.zeros(ops.count, dtype=bool)
    known = rows >= 0
    foreign[known] = (messages["transaction_id"][rows[known]] != ops["transaction_id"][known]) | (
        messages["group"][rows[known]] != ops["group"][known]
    )
    return foreign


def _rank(slots: Column) -> Column:
    """int64[n]: 0 for the first op of a place, 1 for the second, ...; ``slots`` is sorted."""
    starts = np.flatnonzero(np.r_[True, slots[1:] != slots[:-1]])
    lengths = np.diff(np.r_[starts, len(slots)])
    return np.arange(len(slots)) - np.repeat(starts, lengths)
