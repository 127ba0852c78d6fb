"""All rules of a transaction, as one table: (state, event) → (next state, outcome).

Nothing here does I/O, knows a clock or Spark. :mod:`state.segment` turns records and deadlines into the
events named here and looks them up, thousands at a time, through :data:`NEXT` and :data:`OUTCOME`.

States and rules follow RocketMQ 5 (``TransactionalMessageServiceImpl``, ``EndTransactionProcessor``), but
for what its users complain about: the first decision wins, an unreachable producer uses up no attempt, and
nothing is ever dropped in silence.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from checkback.exceptions import IllegalTransitionError


class State(IntEnum):
    """What is known of the half message at one offset. The numbers are stored: never renumber."""

    ABSENT = 0
    """No half message has been seen at this offset."""
    OPEN = 1
    """Waiting for an op, or for the time to check."""
    CHECKING = 2
    """A check has been asked for and not been answered."""
    COMMITTED = 3
    ROLLED_BACK = 4
    PARKED = 5
    """Given up on: checked in vain, or too old."""


class Event(IntEnum):
    """What can happen to a half message."""

    HALF = 0
    """The half message itself was read."""
    COMMIT = 1
    ROLLBACK = 2
    UNKNOWN = 3
    """The producer ended its local transaction without knowing the outcome."""
    CHECK_UNKNOWN = 4
    """A check was answered, but without a verdict: this uses up an attempt."""
    CHECK_UNREACHABLE = 5
    """Nobody could be asked: this uses up no attempt."""
    FOREIGN = 6
    """An op that names this half message under another transaction id or producer group."""
    DUE = 7
    """The transaction timeout, the check interval or the wait for an answer has passed."""
    EXHAUSTED = 8
    """Due again, with all attempts used up."""
    AGED = 9
    """Older than the age limit."""


class Outcome(IntEnum):
    """What follows from an event, beside the next state."""

    NONE = 0
    DELIVER = 1
    """Write the message to its real topic."""
    DISCARD = 2
    """Forget the message: rolled back."""
    CHECK = 3
    """Ask the producer group."""
    PARK = 4
    """Write the message to ``cb.parked``."""
    REJECT = 5
    """Write the op to ``cb.rejected``: it is not this half message's."""
    DUPLICATE = 6
    """Count it: the same decision once more."""
    CONFLICT = 7
    """Count it and write the op to ``cb.rejected``: it contradicts the decision."""


UNDECIDED = (State.OPEN, State.CHECKING)
"""States in which the message itself is kept."""

DECIDED = (State.COMMITTED, State.ROLLED_BACK, State.PARKED)
"""States that no event leaves."""

_DECIDED_BY_OPS = {
    Event.COMMIT: (State.COMMITTED, Outcome.DELIVER),
    Event.ROLLBACK: (State.ROLLED_BACK, Outcome.DISCARD),
}

TABLE: dict[State, dict[Event, tuple[State, Outcome]]] = {
    State.ABSENT: {
        Event.HALF: (State.OPEN, Outcome.NONE),
    },
    State.OPEN: {
        Event.HALF: (State.OPEN, Outcome.DUPLICATE),
        **_DECIDED_BY_OPS,
        Event.UNKNOWN: (State.OPEN, Outcome.NONE),
        Event.CHECK_UNKNOWN: (State.OPEN, Outcome.DUPLICATE),  # an answer given up on came after all
        Event.CHECK_UNREACHABLE: (State.OPEN, Outcome.DUPLICATE),
        Event.FOREIGN: (State.OPEN, Outcome.REJECT),
        Event.DUE: (State.CHECKING, Outcome.CHECK),
        Event.EXHAUSTED: (State.PARKED, Outcome.PARK),
        Event.AGED: (State.PARKED, Outcome.PARK),
    },
    State.CHECKING: {
        Event.HALF: (State.CHECKING, Outcome.DUPLICATE),
        **_DECIDED_BY_OPS,
        Event.UNKNOWN: (State.CHECKING, Outcome.NONE),
        Event.CHECK_UNKNOWN: (State.OPEN, Outcome.NONE),
        Event.CHECK_UNREACHABLE: (State.OPEN, Outcome.NONE),
        Event.FOREIGN: (State.CHECKING, Outcome.REJECT),
        Event.DUE: (State.CHECKING, Outcome.CHECK),  # the answer is lost: ask again
        Event.AGED: (State.PARKED, Outcome.PARK),
    },
    State.COMMITTED: {
        Event.HALF: (State.COMMITTED, Outcome.DUPLICATE),
        Event.COMMIT: (State.COMMITTED, Outcome.DUPLICATE),
        Event.ROLLBACK: (State.COMMITTED, Outcome.CONFLICT),
        Event.UNKNOWN: (State.COMMITTED, Outcome.NONE),
        Event.CHECK_UNKNOWN: (State.COMMITTED, Outcome.NONE),
        Event.CHECK_UNREACHABLE: (State.COMMITTED, Outcome.NONE),
    },
    State.ROLLED_BACK: {
        Event.HALF: (State.ROLLED_BACK, Outcome.DUPLICATE),
        Event.COMMIT: (State.ROLLED_BACK, Outcome.CONFLICT),
        Event.ROLLBACK: (State.ROLLED_BACK, Outcome.DUPLICATE),
        Event.UNKNOWN: (State.ROLLED_BACK, Outcome.NONE),
        Event.CHECK_UNKNOWN: (State.ROLLED_BACK, Outcome.NONE),
        Event.CHECK_UNREACHABLE: (State.ROLLED_BACK, Outcome.NONE),
    },
    State.PARKED: {
        Event.HALF: (State.PARKED, Outcome.DUPLICATE),
        Event.COMMIT: (State.PARKED, Outcome.CONFLICT),
        Event.ROLLBACK: (State.PARKED, Outcome.CONFLICT),
        Event.UNKNOWN: (State.PARKED, Outcome.NONE),
        Event.CHECK_UNKNOWN: (State.PARKED, Outcome.NONE),
        Event.CHECK_UNREACHABLE: (State.PARKED, Outcome.NONE),
    },
}

_NO_ROW = 255

StateCodes = npt.NDArray[np.uint8]
EventCodes = npt.NDArray[np.uint8]
OutcomeCodes = npt.NDArray[np.uint8]


def _column(of: int) -> npt.NDArray[np.uint8]:
    column = np.full((len(State), len(Event)), _NO_ROW, dtype=np.uint8)
    for state, row in TABLE.items():
        for event, result in row.items():
            column[state, event] = result[of]
    return column


NEXT = _column(0)
"""uint8[state, event]: the next state; 255 where the table has no row."""

OUTCOME = _column(1)
"""uint8[state, event]: the outcome; 255 where the table has no row."""


def transition(states: StateCodes, events: EventCodes) -> tuple[StateCodes, OutcomeCodes]:
    """Look up n pairs at once.

    Args:
        states: uint8[n], members of :class:`State`.
        events: uint8[n], members of :class:`Event`.

    Returns:
        uint8[n] next states and uint8[n] outcomes.

    Raises:
        IllegalTransitionError: a pair without a row; the message names the first one.
    """
    following = NEXT[states, events]
    if (following == _NO_ROW).any():
        first = int(np.argmax(following == _NO_ROW))
        raise IllegalTransitionError(
            f"No rule for event {Event(events[first]).name} in state {State(states[first]).name}."
        )
    return following, OUTCOME[states, events]
