"""Fault runs with shops on real databases: ``checkback torture --shops`` does more of this."""

import shutil
from itertools import islice
from pathlib import Path
from pprint import pformat

import pytest

from checkback.exceptions import InstallationError
from torture.shops.kinds import Kind
from torture.shops.run import ShopsReport, torture_shops
from torture.shops.schedule import DECK, Fault, schedule
from torture.shops.steps import ASLEEP, DEADLY, Step

SEED = 1


def test_a_deck_strikes_at_each_step() -> None:
    assert {step for fault, step in DECK if fault is Fault.KILLED} == set(DEADLY) == set(Step) - {Step.ANSWERED}
    assert {step for fault, step in DECK if fault is Fault.STOPPED} == set(ASLEEP)
    assert {fault for fault, _ in DECK} == set(Fault)


def test_a_seed_gives_the_same_rounds_and_as_many_decks_as_kinds_hold_each_card_with_each() -> None:
    size = len(DECK)
    decks = len(Kind) * size
    rounds = list(islice(schedule(3), decks))
    assert rounds == list(islice(schedule(3), decks))
    drawn = {(one.fault, one.step, one.kind) for one in rounds}
    assert drawn == {(*card, kind) for card in DECK for kind in Kind}
    for first in range(0, decks, size):
        assert sorted(str((one.fault, one.step)) for one in rounds[first : first + size]) == sorted(map(_text, DECK))


@pytest.mark.lab
@pytest.mark.timeout(1800)
def test_what_a_database_commits_is_delivered_once_whatever_dies() -> None:
    try:
        report = torture_shops(SEED, 3, brief=True)
    except InstallationError as error:
        pytest.skip(str(error))
    assert report.holds, in_full(report)  # a text: pytest would cut the report short
    assert len(report.rounds) == 3
    assert set(report.orders) == set(Kind)
    assert report.judgement is not None
    assert report.judgement.expected > 200
    assert report.effects is not None
    assert report.effects.effects > 0


def _text(card: object) -> str:
    return str(card)


def in_full(report: ShopsReport) -> str:
    logs = sorted(Path(report.logs).glob("*.log")) if report.logs else []
    said = {str(log): log.read_text(errors="replace").splitlines()[-20:] for log in logs}
    shutil.rmtree(report.logs, ignore_errors=True)
    return pformat((report, said), width=120)
