"""Consumers under faults: each order has one effect. ``docs/reliability.md`` says what is done and how to run more."""

from pprint import pformat

import pytest

from checkback.consumer import Order
from checkback.exceptions import InstallationError
from torture.effects.database import LOCAL
from torture.effects.run import EffectsReport, Options, torture_effects
from torture.effects.schedule import BRIEF, BRIEF_OF_DATABASE
from torture.effects.system import Group

SEED = 5


def judge(report: EffectsReport) -> None:
    assert report.holds, pformat(report, width=120)  # a text: pytest would cut the report short
    assert report.verdict is not None
    assert report.verdict.orders > 150
    assert report.verdict.dead > 0


@pytest.mark.timeout(1800)
def test_each_order_has_one_effect_whatever_dies() -> None:
    judge(torture_effects(Options(SEED, len(BRIEF), brief=True)))


@pytest.mark.lab
@pytest.mark.timeout(1800)
def test_each_order_has_one_effect_and_in_the_order_of_its_key_whatever_befalls_the_database() -> None:
    group = Group(order=Order.KEY)
    try:
        report = torture_effects(Options(SEED, len(BRIEF_OF_DATABASE), group, LOCAL, brief=True))
    except InstallationError as error:
        pytest.skip(str(error))
    judge(report)
    assert report.verdict is not None
    assert report.verdict.disordered == []
