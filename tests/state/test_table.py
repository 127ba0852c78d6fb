"""The transition table and the two arrays made from it."""

from itertools import product

import numpy as np
import pytest

from checkback.exceptions import IllegalTransitionError
from state.table import DECIDED, NEXT, OUTCOME, TABLE, UNDECIDED, Event, Outcome, State, transition

RULES = [(state, event) for state, row in TABLE.items() for event in row]
HOLES = sorted(set(product(State, Event)) - set(RULES))


def _codes(*members: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.array(members, dtype=np.uint8)


def test_numbers_that_are_stored_never_change() -> None:
    assert [(state.name, int(state)) for state in State] == [
        ("ABSENT", 0),
        ("OPEN", 1),
        ("CHECKING", 2),
        ("COMMITTED", 3),
        ("ROLLED_BACK", 4),
        ("PARKED", 5),
    ]
    # ops that wait for their half message are stored with their event
    assert [(event.name, int(event)) for event in Event][:6] == [
        ("HALF", 0),
        ("COMMIT", 1),
        ("ROLLBACK", 2),
        ("UNKNOWN", 3),
        ("CHECK_UNKNOWN", 4),
        ("CHECK_UNREACHABLE", 5),
    ]


@pytest.mark.parametrize(("state", "event"), RULES)
def test_arrays_agree_with_the_table(state: State, event: Event) -> None:
    assert (State(NEXT[state, event]), Outcome(OUTCOME[state, event])) == TABLE[state][event]


def test_a_transition_looks_up_all_pairs_at_once() -> None:
    states, events = zip(*RULES, strict=True)
    following, outcomes = transition(_codes(*states), _codes(*events))
    expected = [TABLE[state][event] for state, event in RULES]
    assert list(zip(following.tolist(), outcomes.tolist(), strict=True)) == expected


def test_a_transition_of_nothing_is_nothing() -> None:
    following, outcomes = transition(_codes(), _codes())
    assert following.size == outcomes.size == 0


@pytest.mark.parametrize(("state", "event"), HOLES)
def test_an_impossible_pair_raises_and_is_named(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransitionError) as raised:
        transition(_codes(State.ABSENT, state), _codes(Event.HALF, event))
    words = str(raised.value).rstrip(".").split()
    assert state.name in words
    assert event.name in words


def test_the_first_impossible_pair_is_named() -> None:
    states = _codes(State.OPEN, State.ABSENT, State.COMMITTED)
    with pytest.raises(IllegalTransitionError, match=r"ROLLBACK in state ABSENT"):
        transition(states, _codes(Event.COMMIT, Event.ROLLBACK, Event.DUE))


def test_states_are_absent_undecided_or_decided() -> None:
    assert sorted([State.ABSENT, *UNDECIDED, *DECIDED]) == list(State)
    assert set(TABLE) == set(State)


@pytest.mark.parametrize("state", DECIDED)
def test_a_decided_state_is_left_by_no_event(state: State) -> None:
    assert {following for following, _ in TABLE[state].values()} == {state}


@pytest.mark.parametrize("state", DECIDED)
def test_in_a_decided_state_nothing_is_written_but_a_conflicting_op(state: State) -> None:
    assert {outcome for _, outcome in TABLE[state].values()} <= {
        Outcome.NONE,
        Outcome.DUPLICATE,
        Outcome.CONFLICT,
    }


@pytest.mark.parametrize("state", UNDECIDED)
def test_an_undecided_state_is_left_for_a_decided_one_by_four_events_only(state: State) -> None:
    leaving = {event for event, (following, _) in TABLE[state].items() if following in DECIDED}
    assert leaving <= {Event.COMMIT, Event.ROLLBACK, Event.EXHAUSTED, Event.AGED}
    assert {Event.COMMIT, Event.ROLLBACK, Event.AGED} <= leaving


def test_message_leaves_the_state_with_the_outcome_that_says_so() -> None:
    decided_by = {Outcome.DELIVER: State.COMMITTED, Outcome.DISCARD: State.ROLLED_BACK, Outcome.PARK: State.PARKED}
    for state, event in RULES:
        following, outcome = TABLE[state][event]
        assert (state not in DECIDED and following in DECIDED) == (outcome in decided_by)
        assert following == decided_by.get(outcome, following)


def test_every_event_outcome_and_state_is_used() -> None:
    results = [result for row in TABLE.values() for result in row.values()]
    assert {event for _, event in RULES} == set(Event)
    assert {outcome for _, outcome in results} == set(Outcome)
    assert {following for following, _ in results} == set(State) - {State.ABSENT}


@pytest.mark.parametrize("state", [*UNDECIDED, *DECIDED])
@pytest.mark.parametrize("event", list(Event)[:6])
def test_every_record_can_come_in_every_state_with_a_half_message(state: State, event: Event) -> None:
    assert event in TABLE[state]
