"""Judges ops: the k-th op of every half message at once, for k = 1, 2, ..."""

import numpy as np

from state.deadlines import after_answer
from state.outcomes import Collector
from state.policy import Policy
from state.rows import Column, Rows
from state.table import DECIDED, UNDECIDED, Event, Outcome, StateCodes, transition


def judge(
    open_rows: Rows,
    ledger: StateCodes,
    first_offset: int,
    ops: Rows,
    now_ms: int,
    policy: Policy,
    made: Collector,
) -> None:
    """Apply ops whose half messages are all in the ledger, in the order of the op topic.

    Changes ``ledger`` and the counters of ``open_rows`` in place; what follows goes to ``made``.
    """
    places = ops["half_offset"] - first_offset
    order = np.lexsort((ops["op_offset"], places))
    ops, places = ops.take(order), places[order]
    rows = _row_of_place(open_rows, ledger, first_offset)[places]
    foreign = _foreign(open_rows, rows, ops)
    remaining, rank = np.arange(ops.count), _rank(places)
    results = np.full(ops.count, Outcome.NONE, dtype=np.uint8)
    turn = 0
    while remaining.size:
        # A decided half message stays as it is, so all its further ops can be looked up together.
        settled = np.isin(ledger[places[remaining]], DECIDED)
        now = remaining[settled | (rank[remaining] == turn)]
        states = ledger[places[now]]
        events = np.where(foreign[now] & np.isin(states, UNDECIDED), Event.FOREIGN, ops["event"][now])
        following, results[now] = transition(states, events.astype(np.uint8))
        answered = after_answer(states, events)
        ledger[places[now]] = following
        answered.apply(open_rows, rows[now], now_ms, policy)
        remaining = remaining[~settled & (rank[remaining] != turn)]
        turn += 1
    made.judged(open_rows, rows, ops, results)


def _row_of_place(open_rows: Rows, ledger: StateCodes, first_offset: int) -> Column:
    """int64[segment_size]: which row of ``open_rows`` a place of the ledger is, -1 for none."""
    rows = np.full(len(ledger), -1, dtype=np.int64)
    rows[open_rows["offset"] - first_offset] = np.arange(open_rows.count)
    return rows


def _foreign(open_rows: Rows, rows: Column, ops: Rows) -> Column:
    """bool[ops]: the op names another transaction id or group than the undecided half message it points at."""
    foreign = np.zeros(ops.count, dtype=bool)
    known = rows >= 0
    foreign[known] = (open_rows["tx_id"][rows[known]] != ops["tx_id"][known]) | (
        open_rows["group"][rows[known]] != ops["group"][known]
    )
    return foreign


def _rank(places: Column) -> Column:
    """int64[n]: 0 for the first op of a place, 1 for the second, ...; ``places`` is sorted."""
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    lengths = np.diff(np.r_[starts, len(places)])
    return np.arange(len(places)) - np.repeat(starts, lengths)
