"""Decks beside the thirty rounds: each of their faults comes as often as any other, and can be done."""

from collections import Counter
from itertools import islice

import pytest

from torture.decks import DECKS, ClusterFault, Deck, MachineFault, rounds_of
from torture.machine import PAUSED


@pytest.mark.parametrize("deck", DECKS)
def test_each_fault_comes_once_before_any_comes_again(deck: Deck) -> None:
    rounds = [this.fault for this in islice(rounds_of(deck, 3), 3 * len(DECKS[deck]))]
    assert Counter(rounds) == dict.fromkeys(DECKS[deck], 3)
    assert set(rounds[: len(DECKS[deck])]) == set(DECKS[deck])


def test_the_same_seed_gives_the_same_rounds() -> None:
    assert list(islice(rounds_of(Deck.PAUSES, 7), 20)) == list(islice(rounds_of(Deck.PAUSES, 7), 20))


def test_each_fault_is_in_a_deck_and_can_be_done() -> None:
    assert {fault for deck in DECKS.values() for fault in deck} == {*MachineFault, *ClusterFault}
    assert set(DECKS[Deck.PAUSES]) == PAUSED
