"""Which fault comes to consumers when: all of them, at every step, in an order that the seed decides."""

from collections import Counter
from itertools import islice

import pytest

from torture.effects import faults
from torture.effects.database import Kind
from torture.effects.database_faults import OF_DATABASE
from torture.effects.schedule import BRIEF, BRIEF_OF_DATABASE, ZOMBIE_STEPS, Fault, deck_size, schedule
from torture.effects.steps import LOCKS, Step

Cards = tuple[tuple[Fault, Step | None], ...]
DECK = deck_size(Kind.FILE)


@pytest.mark.parametrize("seed", range(20))
def test_each_deck_holds_every_step_and_every_other_fault(seed: int) -> None:
    for deck in range(3):
        rounds = list(islice(schedule(seed), deck * DECK, (deck + 1) * DECK))
        deaths = Counter(this.step for this in rounds if this.fault is Fault.KILLED_AT_STEP)
        assert deaths == dict.fromkeys(Step, 1)
        others = Counter(this.fault for this in rounds if this.fault is not Fault.KILLED_AT_STEP)
        assert others == {**dict.fromkeys(set(Fault) - {Fault.KILLED_AT_STEP, *OF_DATABASE}, 1), Fault.ZOMBIE: 2}


@pytest.mark.parametrize(("kind", "more"), [(Kind.FILE, 0), (Kind.THERE, 6), (Kind.OURS, 14)])
def test_with_postgresql_a_deck_holds_what_comes_only_with_a_database(kind: Kind, more: int) -> None:
    rounds = list(islice(schedule(3, database=kind), deck_size(kind)))
    done = Counter((this.fault, this.step) for this in rounds if this.fault in OF_DATABASE)
    assert len(rounds) == DECK + more
    assert done.total() == more
    assert set(done.values()) <= {1}


def test_everything_that_can_be_drawn_can_be_done() -> None:
    assert set(faults._FAULTS) == set(Fault)


def test_with_postgresql_a_consumer_is_stopped_also_where_it_holds_locks() -> None:
    rounds = islice(schedule(3, database=Kind.THERE), 5 * deck_size(Kind.THERE))
    assert {this.step for this in rounds if this.fault is Fault.ZOMBIE} == {*ZOMBIE_STEPS, *LOCKS}


def test_four_decks_stop_a_consumer_at_every_step_where_that_stops_no_other() -> None:
    stopped = {this.step for this in islice(schedule(3), 4 * DECK) if this.fault is Fault.ZOMBIE}
    assert stopped == set(ZOMBIE_STEPS)
    assert not stopped & LOCKS


def test_the_same_seed_gives_the_same_rounds_and_another_one_others() -> None:
    assert list(islice(schedule(7), 90)) == list(islice(schedule(7), 90))
    assert list(islice(schedule(7), 90)) != list(islice(schedule(8), 90))


@pytest.mark.parametrize(("kind", "few"), [(Kind.FILE, BRIEF), (Kind.OURS, BRIEF_OF_DATABASE)])
def test_a_brief_one_is_the_same_for_every_seed_but_for_its_dice(kind: Kind, few: Cards) -> None:
    for seed in (1, 2):
        rounds = list(islice(schedule(seed, brief=True, database=kind), len(few)))
        assert tuple((this.fault, this.step) for this in rounds) == few
