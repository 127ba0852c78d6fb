"""A lane may be frozen between any two steps, for any time, with everybody else at work: what holds all the same.

``docs/decisions/0029-the-direct-lane.md`` has the protocol. Each setting is searched to its end: every order of all
steps of the lane's process, of those who settle it, of the job and of Kafka.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.lanes.explore import explore, wander
from tests.state.lanes.kafka import Request
from tests.state.lanes.setting import ONE, TOGETHER, TWO, Setting
from tests.state.lanes.world import Flaw
from tests.state.test_model import HISTORIES

SECOND = frozenset({1})
REQUESTS = frozenset(Request)
HARMFUL = frozenset({Request.COMMIT, Request.ABORT, Request.COMMIT_OFFSETS})
OPENED = (frozenset[int](), *TOGETHER)
"""With the transaction that opens a lane: it has an empty ledger."""
EPOCH_KEPT = frozenset({Flaw.EPOCH_KEPT_AFTER_A_RESET})

SETTINGS = {
    "one transaction after the other, and a check": Setting(),
    "two in one transaction, and a check": Setting(groups=TOGETHER),
    "two that settle": Setting(groups=ONE, settlers=("check", "check")),
    "an operator who contradicts": Setting(groups=ONE, settlers=("operator", "operator")),
    "a check and an operator": Setting(groups=ONE, settlers=("check", "operator")),
    "the producer rolls one back": Setting(groups=ONE, rolled_back=SECOND),
    "timers commit": Setting(groups=ONE, timers=("commit",)),
    "timers roll back, or park": Setting(groups=ONE, timers=("rollback", "age")),
    "parked, then an operator": Setting(groups=ONE, settlers=("operator",), timers=("age",)),
    "ops before their half message": Setting(unread=True, settlers=()),
    "refused for a quota": Setting(groups=ONE, quota=True, settlers=("check", "operator")),
    "a ledger that expires": Setting(groups=ONE, settlers=("operator",), expires=True),
    "a late request, and a check": Setting(groups=ONE, late=REQUESTS),
    "three late requests": Setting(groups=ONE, settlers=(), late=REQUESTS, resets=3),
    "late requests, and two in one transaction": Setting(groups=TOGETHER, settlers=(), late=REQUESTS, resets=2),
    "a late request, and one transaction after the other": Setting(settlers=(), late=REQUESTS),
    "a late request, and two in one transaction after an empty ledger": Setting(
        groups=OPENED, settlers=(), late=REQUESTS
    ),
}

BIG = Setting(
    groups=(frozenset({0, 1}), frozenset({2}), frozenset({3})),
    rolled_back=frozenset({4}),
    settlers=("check", "operator", "check", "check", "operator"),
    timers=("commit", "rollback", "age"),
    unread=True,
    quota=True,
    expires=True,
    late=REQUESTS,
    resets=3,
)
"""Too many orders to try all."""

FOUND_IN = {
    Flaw.NO_FENCING: Setting(groups=ONE),
    Flaw.LEDGER_NOT_READ: Setting(groups=ONE),
    Flaw.LEDGER_READ_BEFORE_THE_END: Setting(groups=ONE),
    Flaw.LEDGER_READ_UNSTABLE: Setting(groups=ONE),
    Flaw.NO_LEDGER_IS_EMPTY: Setting(groups=ONE, expires=True),
    Flaw.LEDGER_FORGETS: Setting(settlers=()),
    Flaw.LEDGER_IN_NO_TRANSACTION: Setting(groups=ONE),
    Flaw.OP_BEFORE_THE_COMMIT: Setting(groups=ONE),
    Flaw.SETTLED_IN_DOUBT: Setting(groups=ONE),
    Flaw.LANE_USED_AGAIN: Setting(groups=ONE, settlers=("check", "twin")),
    Flaw.HEIR_DELIVERS: Setting(groups=ONE, settlers=("check", "heir")),
    Flaw.UNSETTLED_TAKEN: Setting(groups=ONE),
    Flaw.TIMER_DECIDES: Setting(groups=ONE, timers=("commit",)),
    Flaw.EARLY_OP_DROPPED: Setting(unread=True, settlers=()),
    Flaw.BATCH_WRITTEN_AGAIN: Setting(groups=ONE),
    Flaw.EPOCH_KEPT_AFTER_A_RESET: Setting(settlers=(), late=REQUESTS),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_is_lost_repeated_or_decided_otherwise_whoever_is_frozen(name: str) -> None:
    found = explore(SETTINGS[name])
    assert not found.wrong, "\n".join([found.wrong, *found.history])
    assert found.worlds > 1_000, "the model hardly moves"


@pytest.mark.parametrize("flaw", Flaw)
def test_a_step_left_out_is_found(flaw: Flaw) -> None:
    found = explore(replace(FOUND_IN[flaw], flaws=frozenset({flaw})))
    assert found.wrong
    assert 0 < len(found.history) < 20


@pytest.mark.parametrize(
    ("late", "violation"),
    [
        *((Request.COMMIT, "0 is lost"), (Request.COMMIT, "0 is repeated"), (Request.COMMIT, "[0, 1] is torn")),
        *((Request.ABORT, "1 is lost"), (Request.COMMIT_OFFSETS, "0 is lost")),
        (Request.COMMIT_OFFSETS, "1 is repeated"),
    ],
)
def test_a_late_request_acts_on_a_later_transaction_of_the_same_epoch(late: Request, violation: str) -> None:
    """What happens if a lane goes on after a failed connection: one late request loses, repeats or tears messages."""
    setting = Setting(groups=OPENED if late == Request.COMMIT else TWO, settlers=(), late=frozenset({late}))
    explored = explore(replace(setting, flaws=EPOCH_KEPT), violation)
    assert explored.wrong == violation
    assert f"late copy of {late.name.lower().replace('_', ' ')}" in " ".join(explored.history)


def test_other_late_requests_do_no_harm_in_the_same_epoch() -> None:
    explored = explore(Setting(settlers=(), late=REQUESTS - HARMFUL, flaws=EPOCH_KEPT))
    assert not explored.wrong, "\n".join([explored.wrong, *explored.history])
    assert explored.worlds > 1_000, "the model hardly moves"


@pytest.mark.parametrize("kind", ["twin", "heir"])
def test_who_takes_the_lane_for_its_own_does_no_harm_as_long_as_it_delivers_nothing(kind: str) -> None:
    """The flaws above are in delivering: with a check in place of them the same settings hold."""
    flaw = Flaw.LANE_USED_AGAIN if kind == "twin" else Flaw.HEIR_DELIVERS
    setting = FOUND_IN[flaw]
    assert not explore(replace(setting, settlers=("check", "operator"))).wrong


@settings(max_examples=HISTORIES // 8, database=None)
@given(st.integers(0, 2**64 - 1))
def test_nor_in_long_histories_with_many_taking_part(seed: int) -> None:
    found = wander(BIG, seed, length=60)
    assert not found.wrong, "\n".join([found.wrong, *found.history])
