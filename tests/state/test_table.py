"""The transition table and the two arrays made from it."""

from itertools import product

import numpy as np
import pytest

from checkback.exceptions import IllegalTransitionError
from state.table import FOR_OPERATORS, KEPT, NEXT, OUTCOME, SETTLED, TABLE, UNDECIDED, Effect, Event, State, transition

RULES = [(state, event) for state, row in TABLE.items() for event in row]
OPERATORS = (Event.OPERATOR_COMMIT, Event.OPERATOR_ROLLBACK, Event.RESUME)
OPS = (
    *(Event.COMMIT, Event.ROLLBACK, Event.UNKNOWN, Event.CHECK_UNKNOWN, Event.CHECK_UNREACHABLE),
    *(Event.CHECK_COMMIT, Event.CHECK_ROLLBACK, *OPERATORS, Event.REDELIVER, Event.DELIVERED),
)
HOLES = sorted(set(product(State, Event)) - set(RULES))


def _codes(*members: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.array(members, dtype=np.uint8)


def test_numbers_that_are_stored_never_change() -> None:
    assert [(state.name, int(state)) for state in State] == [
        *(("ABSENT", 0), ("OPEN", 1), ("CHECKING", 2), ("COMMITTED", 3), ("ROLLED_BACK", 4), ("PARKED", 5)),
        *(("DELAYED", 6), ("ABANDONED", 7), ("UNDELIVERABLE", 8)),
    ]
    # ops that wait for their half message are stored with their event
    of_producers = {"COMMIT": 1, "ROLLBACK": 2, "UNKNOWN": 3}
    of_checks = {"CHECK_UNKNOWN": 4, "CHECK_UNREACHABLE": 5, "CHECK_COMMIT": 10, "CHECK_ROLLBACK": 11}
    of_operators = {"OPERATOR_COMMIT": 12, "OPERATOR_ROLLBACK": 13, "RESUME": 14, "REDELIVER": 22}
    numbers = {event.name: int(event) for event in OPS}
    assert numbers == {**of_producers, **of_checks, **of_operators, "DELIVERED": 24}


@pytest.mark.parametrize(("state", "event"), RULES)
def test_arrays_agree_with_the_table(state: State, event: Event) -> None:
    assert (State(NEXT[state, event]), Effect(OUTCOME[state, event])) == TABLE[state][event]


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
    assert {state.name, event.name} <= {*str(raised.value).rstrip(".").split()}


def test_the_first_impossible_pair_is_named() -> None:
    states = _codes(State.OPEN, State.ABSENT, State.COMMITTED)
    with pytest.raises(IllegalTransitionError, match=r"ROLLBACK in state ABSENT"):
        transition(states, _codes(Event.COMMIT, Event.ROLLBACK, Event.DUE))


def test_every_state_is_absent_or_left_by_ops_or_settled() -> None:
    assert sorted([State.ABSENT, *UNDECIDED, *FOR_OPERATORS, *SETTLED]) == list(State)
    assert set(TABLE) == set(State)


@pytest.mark.parametrize("state", SETTLED)
@pytest.mark.parametrize("event", OPS)
def test_a_settled_state_is_left_by_no_op_and_writes_nothing_but_a_refusal(state: State, event: Event) -> None:
    following, outcome = TABLE[state][event]
    assert following == state
    assert outcome in {Effect.NONE, Effect.DUPLICATE, Effect.CONFLICT}


@pytest.mark.parametrize("event", OPS)
def test_a_parked_message_is_left_by_operators_only(event: Event) -> None:
    """And by a fact: its lane has delivered it."""
    following, _ = TABLE[State.PARKED][event]
    assert (following != State.PARKED) == (event in {*OPERATORS, Event.DELIVERED})


@pytest.mark.parametrize("event", OPS)
def test_an_undeliverable_message_is_delivered_again_by_one_op_only(event: Event) -> None:
    following, outcome = TABLE[State.UNDELIVERABLE][event]
    assert (following, outcome) == (State.COMMITTED, Effect.DELIVER) or following == State.UNDELIVERABLE
    assert (following != State.UNDELIVERABLE) == (event == Event.REDELIVER)


@pytest.mark.parametrize("state", [State.COMMITTED, State.DELAYED])
def test_the_same_redelivery_again_is_a_duplicate(state: State) -> None:
    assert TABLE[state][Event.REDELIVER] == (state, Effect.DUPLICATE)


@pytest.mark.parametrize("state", UNDECIDED)
def test_an_undecided_state_is_left_for_a_decided_one_by_decisions_and_limits_only(state: State) -> None:
    leaving = {event for event, (following, _) in TABLE[state].items() if following not in UNDECIDED}
    decisions = {event for event in Event if event.name.endswith(("COMMIT", "ROLLBACK"))}
    assert leaving <= {*decisions, Event.POSTPONED, Event.EXHAUSTED, Event.AGED, Event.DELIVERED}
    assert {*OPS} & decisions <= leaving
    assert {Event.POSTPONED, Event.AGED} <= leaving


def test_a_message_is_kept_until_the_outcome_that_says_so() -> None:
    ending = {Effect.DELIVER: State.COMMITTED, Effect.BY_LANE: State.COMMITTED}
    ending |= {Effect.DISCARD: State.ROLLED_BACK, Effect.FORGET: State.ABANDONED}
    for state, event in RULES:
        following, outcome = TABLE[state][event]
        assert (state in (State.ABSENT, *KEPT) and following not in KEPT) == (outcome in ending)
        assert following == ending.get(outcome, following)


def test_commits_are_postponed_wherever_they_deliver() -> None:
    for row in TABLE.values():
        delivers = {event for event, (_, outcome) in row.items() if outcome == Effect.DELIVER} - {Event.DUE}
        assert (Event.POSTPONED in row) == bool(delivers)


def test_every_event_outcome_and_state_is_used() -> None:
    results = [result for row in TABLE.values() for result in row.values()]
    assert {event for _, event in RULES} == set(Event)
    assert {outcome for _, outcome in results} == set(Effect)
    assert {following for following, _ in results} == set(State) - {State.ABSENT}


@pytest.mark.parametrize("state", [state for state in State if state != State.ABSENT])
@pytest.mark.parametrize("event", [Event.HALF, *OPS])
def test_every_record_can_come_in_every_state_with_a_half_message(state: State, event: Event) -> None:
    assert event in TABLE[state]


def test_ways_into_state_that_has_limits_are_these() -> None:
    """Admission limits the first four, and the sink the fifth, whose message comes back if its topic refuses it."""
    entering = [(state, event, *TABLE[state][event]) for state, event in RULES if state not in KEPT]
    assert [(state, event, following) for state, event, following, _ in entering if following in KEPT] == [
        (State.ABSENT, Event.HALF, State.OPEN),
        (State.ABSENT, Event.POSTPONED, State.DELAYED),
        (State.ABSENT, Event.HALF_PARK, State.UNDELIVERABLE),
        (State.ABSENT, Event.HALF_CONTESTED, State.PARKED),
    ]
    delivered = [(state, event) for state, event, _, effect in entering if effect == Effect.DELIVER]
    assert delivered == [(State.ABSENT, Event.HALF_COMMIT)]
