"""Consumers under faults: each order has one effect. ``docs/reliability.md`` says what is done and how to run more."""

from pprint import pformat

import pytest

from torture.effects.run import torture_effects
from torture.effects.schedule import BRIEF

SEED = 5


@pytest.mark.timeout(900)
def test_each_order_has_one_effect_whatever_dies() -> None:
    report = torture_effects(SEED, len(BRIEF), brief=True)
    assert report.holds, pformat(report, width=120)  # a text: pytest would cut the report short
    assert report.verdict is not None
    assert report.verdict.orders > 300
    assert report.verdict.dead > 0
