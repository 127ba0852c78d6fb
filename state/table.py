"""All rules of a transaction, as one table: (state, event) → (next state, effect).

Nothing here does I/O, knows a clock or Spark. :mod:`state.segment` turns records and deadlines into the
events named here and looks them up, thousands at a time, through :data:`NEXT` and :data:`OUTCOME`.
``docs/semantics.md`` shows the same table to people; its tables are made from this module.

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
    """Delivered."""
    ROLLED_BACK = 4
    """Never delivered."""
    PARKED = 5
    """Given up on, checked in vain or too old: only an operator decides it now."""
    DELAYED = 6
    """Committed, and kept until the time it is to be delivered at."""
    ABANDONED = 7
    """Parked, or undeliverable, for longer than such messages are kept."""
    UNDELIVERABLE = 8
    """Committed, but its topic did not take it: only an operator has it delivered again."""


class Event(IntEnum):
    """What can happen to a half message. The numbers of ops are stored with those that wait: never renumber."""

    HALF = 0
    """The half message itself was read."""
    HALF_COMMIT = 20
    """It was read, and carries its own decision: commit."""
    HALF_PARK = 21
    """It was read, and says that it was committed, but could not be delivered."""
    HALF_CONTESTED = 27
    """It was read, names a lane, and too many different ops had said before that this has delivered it."""
    COMMIT = 1
    """The producer says that its local transaction has committed."""
    CHECK_COMMIT = 10
    """A check was answered: committed."""
    OPERATOR_COMMIT = 12
    """An operator says that it is to be delivered."""
    POSTPONED = 18
    """Any of the commits, of a message that is to be delivered later, or that this batch has no room for."""
    ROLLBACK = 2
    """The producer says that its local transaction has not happened."""
    CHECK_ROLLBACK = 11
    """A check was answered: not committed, and never will be."""
    OPERATOR_ROLLBACK = 13
    """An operator says that it is never to be delivered."""
    LATE = 15
    """A producer's commit or rollback after its check immunity, where the policy is to wait for the check."""
    UNKNOWN = 3
    """The producer, or an operator, ended the transaction without knowing the outcome."""
    CHECK_UNKNOWN = 4
    """A check was answered, but without a verdict: this uses up an attempt."""
    CHECK_UNREACHABLE = 5
    """Nobody could be asked: this uses up no attempt."""
    ANSWERED_AFTER_ALL = 23
    """A check of which nobody could be asked was answered later, without a verdict: this uses up an attempt."""
    RESUME = 14
    """An operator wants a parked message checked again."""
    REDELIVER = 22
    """An operator wants an undeliverable message delivered again."""
    DELIVERED = 24
    """The lane of the half message has delivered it: a fact, whoever says it."""
    UNSETTLED = 25
    """A verdict on a lane's half message that does not say what the lane has done, which nobody has settled."""
    LANELESS = 26
    """An op that says that a lane has delivered it, of a half message that names none."""
    CONTESTED = 28
    """An operator wants a message checked again of which no check can find out what its lane has done."""
    FOREIGN = 6
    """An op that names this half message under another transaction id or producer group."""
    DUE = 7
    """The transaction timeout, the check interval, the wait for an answer or the delay has passed."""
    EXHAUSTED = 8
    """Due again with all attempts used up, and the policy for that is to park."""
    EXHAUSTED_COMMIT = 16
    """Due again with all attempts used up, and the policy for that is to commit."""
    EXHAUSTED_ROLLBACK = 17
    """Due again with all attempts used up, and the policy for that is to roll back."""
    AGED = 9
    """Older than the age limit."""
    EXPIRED = 19
    """Parked, or undeliverable, for as long as such messages are kept."""


class Effect(IntEnum):
    """What follows from an event, beside the next state."""

    NONE = 0
    """Nothing but the next state."""
    DELIVER = 1
    """Write the message to its real topic."""
    DISCARD = 2
    """Forget the message: rolled back."""
    CHECK = 3
    """Ask the producer group."""
    PARK = 4
    """Write the message to ``cb.parked``, and keep it for an operator."""
    REJECT = 5
    """Write the op to ``cb.rejected``: it is not this half message's, or not entitled to decide it."""
    DUPLICATE = 6
    """Count it: it says what is known."""
    CONFLICT = 7
    """Count it and write the op to ``cb.rejected``: it contradicts the decision."""
    DELAY = 8
    """Keep the message until its time."""
    RESUME = 9
    """Begin again, with fresh attempts and a new age."""
    FORGET = 10
    """Keep the parked message no longer; ``cb.parked`` still has it."""
    BY_LANE = 11
    """Count it: its real topic has it from the lane."""


UNDECIDED = (State.OPEN, State.CHECKING)
"""States in which checks are made."""

FOR_OPERATORS = (State.PARKED, State.UNDELIVERABLE)
"""States that only an operator's op or the end of the time to keep it leaves; ``cb.parked`` has the message."""

KEPT = (*UNDECIDED, *FOR_OPERATORS, State.DELAYED)
"""States in which the message itself is kept."""

SETTLED = (State.COMMITTED, State.ROLLED_BACK, State.DELAYED, State.ABANDONED)
"""States that no op leaves."""

_DECIDED_BY_OPS = {
    Event.COMMIT: (State.COMMITTED, Effect.DELIVER),
    Event.CHECK_COMMIT: (State.COMMITTED, Effect.DELIVER),
    Event.OPERATOR_COMMIT: (State.COMMITTED, Effect.DELIVER),
    Event.POSTPONED: (State.DELAYED, Effect.DELAY),
    Event.ROLLBACK: (State.ROLLED_BACK, Effect.DISCARD),
    Event.CHECK_ROLLBACK: (State.ROLLED_BACK, Effect.DISCARD),
    Event.OPERATOR_ROLLBACK: (State.ROLLED_BACK, Effect.DISCARD),
}


def _decided(state: State, commit: Effect, rollback: Effect) -> dict[Event, tuple[State, Effect]]:
    """A state that no op leaves: what each of them counts as."""
    return {
        Event.HALF: (state, Effect.DUPLICATE),
        Event.COMMIT: (state, commit),
        Event.CHECK_COMMIT: (state, commit),
        Event.OPERATOR_COMMIT: (state, commit),
        Event.ROLLBACK: (state, rollback),
        Event.CHECK_ROLLBACK: (state, rollback),
        Event.OPERATOR_ROLLBACK: (state, rollback),
        Event.UNKNOWN: (state, Effect.NONE),
        Event.CHECK_UNKNOWN: (state, Effect.NONE),
        Event.CHECK_UNREACHABLE: (state, Effect.NONE),
        Event.RESUME: (state, Effect.CONFLICT),
        Event.REDELIVER: (state, commit),
        # of a half message that the job has decided it was settled that no lane ever would
        Event.DELIVERED: (state, Effect.DUPLICATE if state == State.COMMITTED else Effect.CONFLICT),
    }


TABLE: dict[State, dict[Event, tuple[State, Effect]]] = {
    State.ABSENT: {
        Event.HALF: (State.OPEN, Effect.NONE),
        Event.HALF_COMMIT: (State.COMMITTED, Effect.DELIVER),
        Event.POSTPONED: (State.DELAYED, Effect.DELAY),
        Event.HALF_PARK: (State.UNDELIVERABLE, Effect.PARK),
        Event.HALF_CONTESTED: (State.PARKED, Effect.PARK),
    },
    State.OPEN: {
        Event.HALF: (State.OPEN, Effect.DUPLICATE),
        **_DECIDED_BY_OPS,
        Event.UNKNOWN: (State.OPEN, Effect.NONE),
        Event.CHECK_UNKNOWN: (State.OPEN, Effect.DUPLICATE),  # an answer given up on came after all
        Event.CHECK_UNREACHABLE: (State.OPEN, Effect.DUPLICATE),
        Event.ANSWERED_AFTER_ALL: (State.OPEN, Effect.NONE),
        Event.RESUME: (State.OPEN, Effect.DUPLICATE),
        Event.REDELIVER: (State.OPEN, Effect.NONE),
        Event.FOREIGN: (State.OPEN, Effect.REJECT),
        Event.DELIVERED: (State.COMMITTED, Effect.BY_LANE),
        Event.UNSETTLED: (State.OPEN, Effect.REJECT),
        Event.LANELESS: (State.OPEN, Effect.REJECT),
        Event.LATE: (State.OPEN, Effect.REJECT),
        Event.DUE: (State.CHECKING, Effect.CHECK),
        Event.EXHAUSTED: (State.PARKED, Effect.PARK),
        Event.EXHAUSTED_COMMIT: (State.COMMITTED, Effect.DELIVER),
        Event.EXHAUSTED_ROLLBACK: (State.ROLLED_BACK, Effect.DISCARD),
        Event.AGED: (State.PARKED, Effect.PARK),
    },
    State.CHECKING: {
        Event.HALF: (State.CHECKING, Effect.DUPLICATE),
        **_DECIDED_BY_OPS,
        Event.UNKNOWN: (State.CHECKING, Effect.NONE),
        Event.CHECK_UNKNOWN: (State.OPEN, Effect.NONE),
        Event.CHECK_UNREACHABLE: (State.OPEN, Effect.NONE),
        Event.RESUME: (State.CHECKING, Effect.DUPLICATE),
        Event.REDELIVER: (State.CHECKING, Effect.NONE),
        Event.FOREIGN: (State.CHECKING, Effect.REJECT),
        Event.DELIVERED: (State.COMMITTED, Effect.BY_LANE),
        Event.UNSETTLED: (State.CHECKING, Effect.REJECT),
        Event.LANELESS: (State.CHECKING, Effect.REJECT),
        Event.LATE: (State.CHECKING, Effect.REJECT),
        Event.DUE: (State.CHECKING, Effect.CHECK),  # the answer is lost: ask again
        Event.AGED: (State.PARKED, Effect.PARK),
    },
    State.COMMITTED: _decided(State.COMMITTED, commit=Effect.DUPLICATE, rollback=Effect.CONFLICT),
    State.ROLLED_BACK: _decided(State.ROLLED_BACK, commit=Effect.CONFLICT, rollback=Effect.DUPLICATE),
    State.PARKED: {
        **_decided(State.PARKED, commit=Effect.CONFLICT, rollback=Effect.CONFLICT),
        Event.OPERATOR_COMMIT: (State.COMMITTED, Effect.DELIVER),
        Event.POSTPONED: (State.DELAYED, Effect.DELAY),
        Event.OPERATOR_ROLLBACK: (State.ROLLED_BACK, Effect.DISCARD),
        Event.RESUME: (State.OPEN, Effect.RESUME),
        Event.FOREIGN: (State.PARKED, Effect.REJECT),
        Event.DELIVERED: (State.COMMITTED, Effect.BY_LANE),
        Event.UNSETTLED: (State.PARKED, Effect.REJECT),
        Event.LANELESS: (State.PARKED, Effect.REJECT),
        Event.CONTESTED: (State.PARKED, Effect.REJECT),
        Event.EXPIRED: (State.ABANDONED, Effect.FORGET),
    },
    State.DELAYED: {
        **_decided(State.DELAYED, commit=Effect.DUPLICATE, rollback=Effect.CONFLICT),
        Event.FOREIGN: (State.DELAYED, Effect.REJECT),
        Event.DUE: (State.COMMITTED, Effect.DELIVER),
    },
    State.ABANDONED: _decided(State.ABANDONED, commit=Effect.CONFLICT, rollback=Effect.CONFLICT),
    State.UNDELIVERABLE: {
        **_decided(State.UNDELIVERABLE, commit=Effect.DUPLICATE, rollback=Effect.CONFLICT),
        Event.REDELIVER: (State.COMMITTED, Effect.DELIVER),
        Event.POSTPONED: (State.DELAYED, Effect.DELAY),
        Event.FOREIGN: (State.UNDELIVERABLE, Effect.REJECT),
        Event.EXPIRED: (State.ABANDONED, Effect.FORGET),
    },
}

_NO_ROW = 255

StateCodes = npt.NDArray[np.uint8]
EventCodes = npt.NDArray[np.uint8]
EffectCodes = npt.NDArray[np.uint8]


def _column(of: int) -> npt.NDArray[np.uint8]:
    column = np.full((len(State), len(Event)), _NO_ROW, dtype=np.uint8)
    for state, row in TABLE.items():
        for event, result in row.items():
            column[state, event] = result[of]
    return column


NEXT = _column(0)
"""uint8[state, event]: the next state; 255 where the table has no row."""

OUTCOME = _column(1)
"""uint8[state, event]: the effect; 255 where the table has no row."""


def transition(states: StateCodes, events: EventCodes) -> tuple[StateCodes, EffectCodes]:
    """Look up n pairs at once.

    Args:
        states: uint8[n], members of :class:`State`.
        events: uint8[n], members of :class:`Event`.

    Returns:
        uint8[n] next states and uint8[n] effects.

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


def delivers(states: StateCodes, events: EventCodes) -> npt.NDArray[np.bool_]:
    """bool[n]: the pairs that the table delivers on."""
    found: npt.NDArray[np.bool_] = OUTCOME[states, events] == Effect.DELIVER
    return found
