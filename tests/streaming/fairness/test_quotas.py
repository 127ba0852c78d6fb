"""Who is over a quota, from what tasks say has changed."""

import logging

import pytest

from conf import QuotaSettings
from state import Usage
from streaming.fairness.quotas import Quotas

QUOTAS = QuotaSettings.model_validate({"open": 10, "open_bytes": "1KiB", "delayed": 5, "parked": 3})


def test_nobody_is_barred_before_it_is_known_what_there_was() -> None:
    quotas = Quotas(QUOTAS)
    quotas.changed(7, {"shop": Usage(open=100)})
    assert quotas.barred({}) == {}
    assert quotas.barred({"other": "why"}) == {"other": "why"}


def test_what_there_was_and_what_came_later_are_added_up() -> None:
    quotas = Quotas(QUOTAS)
    quotas.changed(7, {"shop": Usage(open=100)})  # in what there was, too
    quotas.changed(8, {"shop": Usage(open=2)})
    quotas.begin_with(7, {"shop": Usage(open=5, parked=1)})
    quotas.changed(9, {"shop": Usage(open=1, parked=-1)})
    assert quotas.of_group("shop") == Usage(open=8)
    assert quotas.barred({}) == {}


@pytest.mark.parametrize(
    ("usage", "name"),
    [
        (Usage(open=11), "quotas.open = 10"),
        (Usage(open_bytes=1025), "quotas.open_bytes = 1,024"),
        (Usage(delayed=6), "quotas.delayed = 5"),
        (Usage(parked=4), "quotas.parked = 3"),
    ],
)
def test_each_quota_bars_its_group_and_no_other(usage: Usage, name: str) -> None:
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, {"shop": usage, "other": Usage(10, 1024, 5, 3)})
    (reason,) = quotas.barred({}).values()
    assert name in reason
    assert "group shop" in reason


def test_a_barred_group_is_let_in_again_when_it_is_well_below(caplog: pytest.LogCaptureFixture) -> None:
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, {"shop": Usage(open=12)})
    with caplog.at_level(logging.WARNING):
        barred = quotas.barred({})
        quotas.changed(1, {"shop": Usage(open=-2)})
        assert quotas.barred(barred) == barred
        quotas.changed(2, {"shop": Usage(open=-1)})
        assert quotas.barred(barred) == {}
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "Half messages are rejected from now on",
        "Half messages of group shop are taken in again.",
    ]
