"""Which fault comes to consumers when: all of them, at every step, in an order that the seed decides."""

from collections import Counter
from itertools import islice

import pytest

from torture.effects.schedule import BRIEF, DECK, TRANSPORTS, ZOMBIE_STEPS, Fault, schedule
from torture.effects.steps import LOCKS, Step


@pytest.mark.parametrize("seed", range(20))
def test_each_deck_holds_every_step_and_every_other_fault(seed: int) -> None:
    for deck in range(3):
        rounds = list(islice(schedule(seed), deck * DECK, (deck + 1) * DECK))
        deaths = Counter(this.step for this in rounds if this.fault is Fault.KILLED_AT_STEP)
        assert deaths == dict.fromkeys(Step, 1)
        others = Counter(this.fault for this in rounds if this.fault is not Fault.KILLED_AT_STEP)
        assert others == {**dict.fromkeys(set(Fault) - {Fault.KILLED_AT_STEP}, 1), Fault.ZOMBIE: 2}


def test_two_decks_hold_the_death_at_a_step_with_both_clients() -> None:
    rounds = list(islice(schedule(3), 2 * DECK))
    for step in (Step.BOOKED, Step.STORING, Step.RECORDS_WRITTEN):
        assert {this.transport for this in rounds if this.step is step and this.fault is Fault.KILLED_AT_STEP} == set(
            TRANSPORTS
        )


def test_four_decks_stop_a_consumer_at_every_step_where_that_stops_no_other() -> None:
    stopped = {this.step for this in islice(schedule(3), 4 * DECK) if this.fault is Fault.ZOMBIE}
    assert stopped == set(ZOMBIE_STEPS)
    assert not stopped & LOCKS


def test_the_same_seed_gives_the_same_rounds_and_another_one_others() -> None:
    assert list(islice(schedule(7), 90)) == list(islice(schedule(7), 90))
    assert list(islice(schedule(7), 90)) != list(islice(schedule(8), 90))


def test_a_brief_one_is_the_same_for_every_seed_but_for_its_dice() -> None:
    for seed in (1, 2):
        rounds = list(islice(schedule(seed, brief=True), len(BRIEF)))
        assert tuple((this.fault, this.step) for this in rounds) == BRIEF
