"""Fault runs with producers that deliver themselves: ``checkback torture --lanes`` does more of this."""

import shutil
from itertools import islice
from pathlib import Path
from pprint import pformat

import pytest

from torture.lanes.run import LanesReport, torture_lanes
from torture.lanes.schedule import Fault, deck, schedule
from torture.lanes.steps import OF_TRANSACTION, LaneStep, SettlingStep

SEED = 1


def test_a_deck_strikes_at_each_step() -> None:
    cards = set(deck())
    for step in OF_TRANSACTION:
        assert {(Fault.KILLED, step), (Fault.STOPPED, step)} <= cards
    assert (Fault.FENCED_AND_KILLED, LaneStep.SETTLING_ITSELF) in cards
    assert (Fault.FENCED, None) in cards
    of_checks = {(fault, step) for fault, step in cards if isinstance(step, SettlingStep)}
    assert of_checks == {
        (fault, step) for fault in (Fault.CHECKS_KILLED, Fault.CHECKS_STOPPED) for step in SettlingStep
    }
    assert {fault for fault, _ in cards} == set(Fault)


def test_a_seed_gives_the_same_rounds_and_each_deck_holds_all() -> None:
    size = len(deck())
    rounds = list(islice(schedule(3), 2 * size))
    assert rounds == list(islice(schedule(3), 2 * size))
    for first in (0, size):
        drawn = [(one.fault, one.step) for one in rounds[first : first + size]]
        assert sorted(map(str, drawn)) == sorted(map(str, deck()))


@pytest.mark.timeout(1800)
def test_nothing_is_lost_repeated_leaked_or_changed_whoever_dies() -> None:
    report = torture_lanes(SEED, 2, brief=True)
    assert report.holds, in_full(report)  # a text: pytest would cut the report short
    assert len(report.rounds) == 2
    assert report.judgement is not None
    assert report.judgement.expected > 100
    assert not report.rejected, "nobody may say what the job has to reject, but of a half message that was refused"


def in_full(report: LanesReport) -> str:
    logs = sorted(Path(report.logs).glob("*.log")) if report.logs else []
    said = {str(log): log.read_text(errors="replace").splitlines()[-20:] for log in logs}
    shutil.rmtree(report.logs, ignore_errors=True)
    return pformat((report, said), width=120)
