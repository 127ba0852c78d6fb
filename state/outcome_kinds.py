"""What a row of outcomes is for."""

from enum import IntEnum


class OutcomeKind(IntEnum):
    """What a row of outcomes is for. Rows travel to the sink in the same batch, they are never stored."""

    DELIVER = 1
    """Write it to the real topic."""
    CHECK = 2
    """Write a check request."""
    PARK = 3
    REJECT_OP = 4
    """Write an op to ``cb.rejected``."""
    REJECT_RECORD = 5
    """Write a record that breaks the protocol to ``cb.rejected``."""
    STATUS = 6
    """The transaction was checked for the first time, or a check of it was answered, and it is still open."""
    STATUS_END = 7
    """It is no longer."""
    COUNT = 8
    """Not written: ``reason`` is the name of a counter, ``half_offset`` how much to add; of one that is told apart by
    producer group or size, ``group`` and ``attempt`` say which."""
    DELIVER_BUNDLE = 9
    """Write the messages that its value holds to their real topics."""
    PARK_END = 10
    """Write to ``cb.parked`` that it waits for an operator no longer; ``reason`` is what became of it."""
    USAGE = 11
    """Not written: how the usage of a group has changed, in the columns that ``USAGE_COLUMNS`` names."""
    OPEN = 12
    """Not written: how many of a group and a real topic are undecided in the segment that begins at ``half_offset``
    (``attempt``; 0: none of any), and when the oldest was taken in (``ingested_ms``)."""
    BY_LANE = 13
    """For tables only: its lane has written it to its real topic."""
    BY_LANE_BUNDLE = 14
    """Likewise, of the messages that its value holds."""


NOT_WRITTEN = (
    *(OutcomeKind.COUNT, OutcomeKind.USAGE, OutcomeKind.OPEN),
    *(OutcomeKind.BY_LANE, OutcomeKind.BY_LANE_BUNDLE),
)
"""What no topic gets."""

TIMER = "timer"
"""Name of the tally of segments whose timers are due in a slot, its size."""
TIMER_SLOT_MS = 2_000
"""Slots are numbered from 1970, in 32 bits."""

USAGE_COLUMNS = ("half_offset", "ingested_ms", "attempt", "check_max")
"""Columns of outcomes that hold the numbers of a :class:`~state.usage.Usage`, for want of another use."""
