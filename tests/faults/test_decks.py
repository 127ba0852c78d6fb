"""Decks beside the thirty rounds: each of their faults comes as often as any other, and can be done."""

from collections import Counter
from itertools import islice

import pytest

from streaming.batch.failpoints import Failpoint
from torture.decks import DECKS, ClusterFault, Deck, MachineFault, SinkFault, rounds_of
from torture.machine import PAUSED
from torture.schedule import PUBLISHING, Fault
from torture.sink_faults import OF_SINKS


@pytest.mark.parametrize("deck", DECKS)
def test_each_fault_comes_once_before_any_comes_again(deck: Deck) -> None:
    rounds = [this.fault for this in islice(rounds_of(deck, 3), 3 * len(DECKS[deck]))]
    assert Counter(rounds) == dict.fromkeys(DECKS[deck], 3)
    assert set(rounds[: len(DECKS[deck])]) == set(DECKS[deck])


def test_the_same_seed_gives_the_same_rounds() -> None:
    assert list(islice(rounds_of(Deck.PAUSES, 7), 20)) == list(islice(rounds_of(Deck.PAUSES, 7), 20))


def test_each_fault_is_in_a_deck_and_can_be_done() -> None:
    of_decks = {fault for deck in DECKS.values() for fault in deck} - set(Fault)
    assert of_decks == {*MachineFault, *ClusterFault, *SinkFault}
    assert set(DECKS[Deck.PAUSES]) == PAUSED


def test_each_fault_of_a_store_can_be_done_and_a_driver_dies_at_each_step_of_publishing() -> None:
    deaths = (SinkFault.KILLED_BEFORE, SinkFault.KILLED_BETWEEN, SinkFault.KILLED_AFTER)
    assert set(SinkFault) - OF_SINKS == set(deaths)
    rounds = {this.fault: this.step for this in islice(rounds_of(Deck.SINKS, 5), len(DECKS[Deck.SINKS]))}
    assert tuple(rounds[fault] for fault in deaths) == PUBLISHING
    assert isinstance(rounds[SinkFault.COMPACTED], Failpoint)
