"""Half messages that name a lane: their producer may deliver them itself, so not everybody's verdict can be taken.

``docs/decisions/0029-the-direct-lane.md`` has the protocol, and why what is rejected here would be delivered twice.
"""

import numpy as np

from state.rows import CONTESTED_LANE, NO_LANE, SETTLED_LANE, UNSETTLED_LANE, Column, Rows
from state.table import UNDECIDED, Event, EventCodes, State, StateCodes

_BY_OPERATORS = (Event.OPERATOR_COMMIT, Event.OPERATOR_ROLLBACK)
_VERDICTS = (Event.COMMIT, Event.ROLLBACK, Event.CHECK_COMMIT, Event.CHECK_ROLLBACK, *_BY_OPERATORS)
_LEFT_BY_DELIVERED = (*UNDECIDED, State.PARKED)


def note_settled(messages: Rows, rows: Column, settled: Column, events: EventCodes) -> None:
    """Remember of lanes' half messages that an op of their own says so; changes them in place."""
    told = (settled == 1) & (rows >= 0) & (events != Event.FOREIGN)
    if told.any():
        found = rows[told]
        messages["lane"][found[messages["lane"][found] == UNSETTLED_LANE]] = SETTLED_LANE


def of_lanes(messages: Rows, rows: Column, states: StateCodes, events: EventCodes, settled: Column) -> EventCodes:
    """The events, with ``UNSETTLED`` for verdicts that may contradict a lane, and ``LANELESS`` where there is none.

    ``rows[i]`` is the message that event i happens to, -1 for none; ``settled[i]`` is 1 where its op says so.
    """
    delivered = events == Event.DELIVERED
    if not messages.count or not (delivered.any() or (messages["lane"] != NO_LANE).any()):
        return events  # as everywhere without lanes
    lanes = np.where(rows >= 0, messages["lane"][rows], SETTLED_LANE)
    entitled = np.isin(states, UNDECIDED) & np.isin(events, _VERDICTS)
    entitled |= (states == State.PARKED) & np.isin(events, _BY_OPERATORS)
    contested = lanes == CONTESTED_LANE
    unsettled = (lanes == UNSETTLED_LANE) | (contested & (settled != 1))
    events = np.where(entitled & unsettled, np.uint8(Event.UNSETTLED), events)
    again = contested & (states == State.PARKED) & (events == Event.RESUME)
    events = np.where(again, np.uint8(Event.CONTESTED), events)
    laneless = delivered & (lanes == NO_LANE) & np.isin(states, _LEFT_BY_DELIVERED)
    return np.where(laneless, np.uint8(Event.LANELESS), events)


def unsettled(messages: Rows, rows: Column) -> Column:
    """bool[n]: which of these messages only their lane may decide so far."""
    found: Column = messages["lane"][rows] == UNSETTLED_LANE
    return found
