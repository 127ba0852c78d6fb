"""Which fault comes when: all of them, in an order that the seed decides."""

from collections import Counter
from itertools import islice

import pytest

from streaming.batch.failpoints import Failpoint
from torture.schedule import PUBLISHING, STEPS, TESTED_ALONE, Fault, schedule

DECK = 30
NO_DATABASE = frozenset({Fault.DATABASE_CUT})


@pytest.mark.parametrize("seed", range(20))
def test_thirty_rounds_hold_every_fault(seed: int) -> None:
    for deck in range(3):
        rounds = list(islice(schedule(seed, NO_DATABASE), deck * DECK, (deck + 1) * DECK))
        assert {this.fault for this in rounds} == set(Fault) - NO_DATABASE


def test_with_a_database_it_takes_thirty_two() -> None:
    assert {this.fault for this in islice(schedule(1), DECK + 2)} == set(Fault)


@pytest.mark.parametrize(("seed", "more_steps"), [(seed, steps) for seed in range(20) for steps in ((), PUBLISHING)])
def test_ninety_rounds_hold_the_drivers_death_at_every_step(seed: int, more_steps: tuple[Failpoint, ...]) -> None:
    rounds = islice(schedule(seed, NO_DATABASE, more_steps), 3 * DECK)
    deaths = Counter(this.step for this in rounds if this.fault is Fault.DRIVER_KILLED)
    assert deaths.keys() == {None, *STEPS, *more_steps}
    assert max(deaths[step] for step in STEPS) - min(deaths[step] for step in STEPS) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_a_brief_one_holds_every_fault_once_that_has_no_test_of_its_own_and_at_a_step_where_it_can(seed: int) -> None:
    held = set(Fault) - NO_DATABASE - TESTED_ALONE
    rounds = list(islice(schedule(seed, NO_DATABASE, brief=True), len(held)))
    assert Counter(this.fault for this in rounds) == dict.fromkeys(held, 1)
    at_steps = {this.fault for this in rounds if this.step is not None} | {Fault.JOB_SUSPENDED}
    killed = {Fault.DRIVER_KILLED, Fault.EXECUTOR_KILLED, Fault.WORKERS_KILLED}
    assert at_steps == killed | {Fault.SETTINGS_CHANGED, Fault.JOB_SUSPENDED}


def test_the_same_seed_gives_the_same_rounds() -> None:
    assert list(islice(schedule(7), 90)) == list(islice(schedule(7), 90))


def test_another_seed_gives_others() -> None:
    assert list(islice(schedule(7), DECK)) != list(islice(schedule(8), DECK))


def test_what_a_machine_cannot_do_is_left_out() -> None:
    without = NO_DATABASE | {Fault.CLOCK_BACK_HOUR}
    rounds = list(islice(schedule(1, without), DECK - 1))
    assert {this.fault for this in rounds} == set(Fault) - without
    assert [this.number for this in rounds] == list(range(1, DECK))
