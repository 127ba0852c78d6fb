"""The whole system under thirty faults; ``docs/reliability.md`` says what they are and how to run more."""

import shutil

import pytest

from torture import Options, torture

SEED = 6


@pytest.mark.timeout(900)
def test_nothing_is_lost_repeated_leaked_or_changed() -> None:
    report = torture(Options(SEED, rounds=30))
    assert not report.left_out
    assert report.holds, report
    assert len(report.rounds) == 30
    assert report.judgements["kafka"].expected > 1000
    if report.logs:  # a slow machine's; all is well
        shutil.rmtree(report.logs)
