"""Half messages that keep the protocol and are not taken in all the same."""

import numpy as np
import pytest

from access.policy import policy_of
from checkback.wire.protocol import Topics
from state import HALF_FIELDS, Event, Rows
from state.rows import Column, objects
from streaming.access.told import NotAllowed, why_not_together
from streaming.fairness.barred import Barred
from streaming.stateful.admission import Admission
from streaming.stateful.broken import _HALF_EVENTS

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
OF_BIG = NotAllowed(policy_of('[accounts.big]\ngroups = ["shop"]\ntopics = ["orders"]'), Topics())


def halves(*given: tuple[str, Event, int]) -> Rows:
    """Group, what it says of itself, when it is to be delivered."""
    rows = Rows({name: np.zeros(len(given), dtype) for name, dtype in HALF_FIELDS.items()})
    groups, events, deliver_at = zip(*given, strict=True)
    rows["group"][:] = objects(groups)
    rows["event"][:] = np.array(events, dtype=np.uint8)
    rows["deliver_at_ms"][:] = deliver_at
    return rows


def held(*rows: int, of: int) -> Column:
    """Which of so many the job wrote itself."""
    return np.isin(np.arange(of), rows)


def test_a_delay_up_to_the_limit_is_taken_in_and_a_longer_one_is_not() -> None:
    admission = Admission(NOW_MS, DAY_MS)
    given = halves(
        ("shop", Event.HALF, -1),
        ("shop", Event.HALF, NOW_MS + DAY_MS),
        ("shop", Event.HALF, NOW_MS + DAY_MS + 1),
        ("shop", Event.HALF_COMMIT, NOW_MS + DAY_MS + 1),
        ("shop", Event.HALF_COMMIT, NOW_MS + DAY_MS + 1),  # the job's own, for a topic that is slow
    )
    found = admission.reasons(given, held(4, of=5))
    assert found.keys() == {2, 3}
    assert "transactions.delay_max (1d)" in found[2]


def test_of_a_barred_group_only_what_takes_no_room_is_taken_in() -> None:
    admission = Admission(NOW_MS, DAY_MS, Barred({"shop": "too much"}))
    given = halves(
        ("shop", Event.HALF, -1),
        ("other", Event.HALF, -1),
        ("shop", Event.HALF_COMMIT, -1),  # is delivered at once
        ("shop", Event.HALF_COMMIT, NOW_MS + 5_000),
        ("shop", Event.HALF_COMMIT, NOW_MS + 5_000),  # the job's own, taken in before
        ("shop", Event.HALF_PARK, -1),  # likewise
    )
    assert admission.reasons(given, held(4, 5, of=6)) == {0: "too much", 3: "too much"}


LATER_MS = NOW_MS + 5_000
WAYS = {
    "open": (Event.HALF, -1),
    "open, then delayed": (Event.HALF, LATER_MS),
    "delayed": (Event.HALF_COMMIT, LATER_MS),
    "parked by its producer": (Event.HALF_PARK, -1),
    "parked by its producer, with a time": (Event.HALF_PARK, LATER_MS),
}
"""Into state that has limits, of half messages that the job did not write."""


@pytest.mark.parametrize(("event", "deliver_at_ms"), WAYS.values(), ids=WAYS)
def test_of_a_barred_group_or_account_no_producer_reaches_state_with_limits(event: Event, deliver_at_ms: int) -> None:
    assert {way for way, _ in WAYS.values()} == {*_HALF_EVENTS.values()}, "all that a half message can say of itself"
    given = halves(("shop", event, deliver_at_ms))
    given["topic"][:] = objects(["orders"])
    for barred in (Barred({"shop": "too much"}), Barred({}, {"big": "too much"})):
        assert Admission(NOW_MS, DAY_MS, barred, OF_BIG).reasons(given, held(of=1)) == {0: "too much"}


@pytest.mark.parametrize("barred", [Barred({"shop": "group"}), Barred({}, {"big": "account"})])
def test_of_a_barred_group_retries_are_taken_in_and_of_barred_retries_producers(barred: Barred) -> None:
    given = halves(*[("shop", Event.HALF_COMMIT, NOW_MS + 5_000)] * 2, ("shop", Event.HALF, -1))
    given["topic"][:] = objects(["orders", "cb.retry.shop", "cb.retry.shop"])

    def rejected(whose: Barred) -> set[int]:
        admission = Admission(NOW_MS, DAY_MS, whose, OF_BIG, retry_prefix="cb.retry.")
        return {*admission.reasons(given, held(of=3))}

    assert rejected(barred) == {0, 2}, "an undecided message is no retry, whatever its topic"
    assert rejected(Barred({"cb.retry.shop": "group"})) == rejected(Barred({}, {"big (retries)": "account"})) == {1}


def test_of_a_barred_account_nothing_is_taken_in_whatever_its_groups_are_called() -> None:
    policy = policy_of('other_groups = "allow"\n[accounts.big]\ngroups = ["big.*", "shop"]\nother_topics = "allow"')
    barred = Barred({"shop": "the group"}, {"big": "the account"})
    admission = Admission(NOW_MS, DAY_MS, barred, NotAllowed(policy, Topics()))
    named = ("big.a", "big.never-seen", "shop", "bigger", "big.a")
    given = halves(*((name, Event.HALF, -1) for name in named))
    given["topic"][:] = objects(["orders"] * len(named))
    found = admission.reasons(given, held(4, of=5))
    assert found == {0: "the account", 1: "the account", 2: "the group"}


def test_an_account_of_a_policy_that_is_gone_bars_nobody() -> None:
    admission = Admission(NOW_MS, DAY_MS, Barred({}, {"big": "too much"}))
    assert admission.reasons(halves(("big", Event.HALF, -1)), held(of=1)) == {}


def test_without_rows_there_is_nothing_to_say() -> None:
    assert Admission(NOW_MS, DAY_MS, Barred({"shop": "too much"})).reasons(Rows.empty(HALF_FIELDS), held(of=0)) == {}


def test_what_the_policy_does_not_allow_is_not_taken_in_not_even_what_looks_like_the_jobs_own() -> None:
    policy = policy_of('[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]')
    admission = Admission(NOW_MS, DAY_MS, Barred({"shop": "too much"}), NotAllowed(policy, Topics()))
    given = halves(("shop", Event.HALF, -1), *[("other", Event.HALF, -1)] * 2, ("shop", Event.HALF_COMMIT, -1))
    given["topic"][:] = objects(["orders", "orders", "orders", "payments"])
    found = admission.reasons(given, held(2, of=4))
    of_nobody = "group other may not send to orders: no account names that group"
    not_named = "group shop may not send to payments, which its account (shop) does not name"
    assert found == {0: "too much", 1: of_nobody, 2: of_nobody, 3: not_named}
    assert why_not_together(admission.policy, "shop", ["orders"]) == ""
    assert "payments" in why_not_together(admission.policy, "shop", ["orders", "payments"])
