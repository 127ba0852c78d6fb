"""Who is over a quota, from what tasks say has changed."""

import logging
from unittest.mock import Mock

import pytest
from pyspark.errors import PythonException

from access.policy import AccessPolicy, policy_of
from conf import QuotaSettings, Settings
from state import Usage
from streaming.fairness import fairness
from streaming.fairness.barred import Barred
from streaming.fairness.quotas import Quotas
from streaming.stops import essence

QUOTAS = QuotaSettings.model_validate({"open": 10, "open_bytes": "1KiB", "delayed": 5, "parked": 3})


def test_nobody_is_barred_before_it_is_known_what_there_was() -> None:
    quotas = Quotas(QUOTAS)
    quotas.changed(7, {"shop": Usage(open=100)})
    assert quotas.barred(Barred()) == Barred()
    assert quotas.barred(Barred({"other": "why"})) == Barred({"other": "why"})


def test_what_there_was_and_what_came_later_are_added_up() -> None:
    quotas = Quotas(QUOTAS)
    quotas.changed(7, {"shop": Usage(open=100)})  # in what there was, too
    quotas.changed(8, {"shop": Usage(open=2)})
    quotas.begin_with(7, {"shop": Usage(open=5, parked=1)})
    quotas.changed(9, {"shop": Usage(open=1, parked=-1)})
    assert quotas.now == {"shop": Usage(open=8)}
    assert quotas.barred(Barred()) == Barred()


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
    (reason,) = quotas.barred(Barred()).groups.values()
    assert name in reason
    assert "group shop" in reason


def test_a_barred_group_is_let_in_again_when_it_is_well_below(caplog: pytest.LogCaptureFixture) -> None:
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, {"shop": Usage(open=12)})
    with caplog.at_level(logging.WARNING):
        barred = quotas.barred(Barred())
        quotas.changed(1, {"shop": Usage(open=-2)})
        assert quotas.barred(barred) == barred
        quotas.changed(2, {"shop": Usage(open=-1)})
        assert quotas.barred(barred) == Barred()
    rejected, again = (record.getMessage().split(":")[0] for record in caplog.records)
    assert rejected == "Half messages are rejected from now on"
    assert again == "Half messages of group shop are taken in again."


LIMITED = policy_of("""
[accounts.big]
groups = ["big.*", "both"]
topics = ["*"]
limits = { open = 10, open_bytes = "1KiB" }

[accounts.also]
groups = ["both"]
topics = ["*"]
limits = { parked = 2 }

[accounts.free]
groups = ["free"]
topics = ["*"]
""")


def accounts_barred(usages: dict[str, Usage], policy: AccessPolicy | None = LIMITED) -> dict[str, str]:
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, usages)
    found = quotas.barred(Barred(), policy)
    assert not found.groups
    return dict(found.accounts)


def test_what_all_groups_of_an_account_have_counts_for_its_limits() -> None:
    usages = {f"big.{number}": Usage(open=1, open_bytes=5) for number in range(11)}
    why = "account big has 11 of its limits.open = 10; it is let in again below nine tenths"
    assert accounts_barred(usages) == {"big": why}
    assert accounts_barred({**usages, "big.10": Usage(), "free": Usage(open=10)}) == {}
    assert accounts_barred(usages, None) == {}


def test_what_consumers_want_again_counts_apart_from_what_producers_have() -> None:
    """Any consumer may write that, and name any group."""
    quotas = Quotas(QuotaSettings(delayed=5), retry_prefix="cb.retry.")
    policy = policy_of('[accounts.pay]\ngroups = ["pay"]\nlimits = { delayed = 3 }')
    quotas.begin_with(0, {"cb.retry.pay": Usage(delayed=4), "pay": Usage(delayed=3)})
    reason = "account pay (retries) has 4 of its limits.delayed = 3; it is let in again below nine tenths"
    assert quotas.barred(Barred(), policy) == Barred({}, {"pay (retries)": reason})
    quotas.changed(1, {"cb.retry.pay": Usage(delayed=2)})
    assert quotas.barred(Barred(), policy).groups.keys() == {"cb.retry.pay"}


def test_a_group_of_two_accounts_counts_for_both() -> None:
    assert accounts_barred({"both": Usage(open=9, parked=3), "big.1": Usage(open=2)}).keys() == {"big", "also"}
    assert accounts_barred({"both": Usage(parked=2), "free": Usage(parked=3)}) == {}


def test_an_account_is_let_in_again_when_it_is_well_below_or_has_no_limit_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, {"big.1": Usage(open=6), "big.2": Usage(open=6)})
    with caplog.at_level(logging.WARNING):
        barred = quotas.barred(Barred(), LIMITED)
        quotas.changed(1, {"big.2": Usage(open=-2)})
        assert quotas.barred(barred, LIMITED) == barred
        assert quotas.barred(barred, policy_of('[accounts.big]\ngroups = ["big.*"]')) == Barred()
        quotas.changed(2, {"big.1": Usage(open=-6)})
        assert quotas.barred(barred, LIMITED) == Barred()
    assert [record.getMessage() for record in caplog.records] == [
        f"Half messages are rejected from now on: {barred.accounts['big']}.",
        *["Half messages of account big's groups are taken in again."] * 2,
    ]


def test_whose_a_group_is_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that belongs to nobody: anybody can make such names up, and each account is looked at for each."""
    asked: list[str] = []
    of_group = AccessPolicy.of_group

    def counted(policy: AccessPolicy, group: str) -> list[str]:
        asked.append(group)
        return of_group(policy, group)

    monkeypatch.setattr(AccessPolicy, "of_group", counted)
    quotas = Quotas(QUOTAS)
    quotas.begin_with(0, {"big.1": Usage(open=11), "nobody's": Usage(open=1)})
    for batch in range(1, 4):
        barred = quotas.barred(Barred(), LIMITED)
        assert list(quotas.barred_groups(barred)) == ["big.1"]
        quotas.changed(batch, {"another": Usage(open=1)})
    assert sorted(asked) == ["another", "big.1", "nobody's"]


def test_the_log_names_what_failed_in_a_python_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    frames = 'Traceback (most recent call last):\n  File "/opt/state/usage.py", line 9, in read\n    read()\n'
    error = PythonException(f"An exception was thrown from the Python worker:\n{frames}EOFError: no more")
    monkeypatch.setattr(fairness, "folder_at", Mock())
    monkeypatch.setattr(fairness, "ArrowRows", Mock())
    monkeypatch.setattr(fairness, "usage_in_state", Mock(side_effect=error))
    counting = fairness.Fairness(Mock(), Settings(), essence)
    counting._newest = 2
    counting._count()
    counting.stop()
    [line] = [record.getMessage() for record in caplog.records]
    assert line == "Quotas wait: the state of batch 1 cannot be counted now: EOFError: no more (usage.py, line 9)"
