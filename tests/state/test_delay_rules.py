"""Every rule of delayed delivery, of bundles and of the check schedule by name."""

from dataclasses import replace

import numpy as np
import pytest

from state import BUNDLE, MESSAGE_FIELDS, Always, Event, Rows, State, Usage, usage_of
from state.rows import objects
from tests.state import reference
from tests.state.ops import CHECK_COMMIT, CHECK_UNKNOWN, COMMIT, OPERATOR_COMMIT, RESUME, ROLLBACK
from tests.state.records import Driver, Half, Op
from tests.state.small import POLICY, opened, parked, says_nothing

LATER = Half(deliver_at_ms=50_000)


@pytest.mark.parametrize("stored", [False, True])
def test_a_committed_message_is_delivered_at_its_time(*, stored: bool) -> None:
    driver = Driver(POLICY, stored=stored)
    driver.step(0, LATER)
    said = driver.step(1, COMMIT)
    assert says_nothing(said)
    assert said.counts == {"op": 1, "applied": 1, "delayed": 1}
    assert (said.ledger, said.timer_ms) == ({0: "delayed"}, 50_000)
    assert says_nothing(driver.step(49_999))
    said = driver.step(50_000)
    assert [message.offset for message in said.delivered] == [0]
    assert (said.counts, said.ledger) == ({"committed": 1}, {0: "committed"})


@pytest.mark.parametrize("deliver_at_ms", [0, 1])
def test_a_time_that_has_passed_delays_nothing(deliver_at_ms: int) -> None:
    assert opened(half=Half(deliver_at_ms=deliver_at_ms)).step(1, COMMIT).delivered


@pytest.mark.parametrize("op", [CHECK_COMMIT, OPERATOR_COMMIT])
def test_every_commit_is_delayed(op: Op) -> None:
    driver = opened(half=LATER)
    driver.step(POLICY.transaction_timeout_ms)
    said = driver.step(POLICY.transaction_timeout_ms + 1, op)
    assert said.ledger == {0: "delayed"}
    assert [status.transaction_id for status in said.ended] == ["tx"]
    assert not driver.step(50_000).ended, "its status row ended with the decision"


def test_a_delayed_message_is_neither_checked_nor_too_old() -> None:
    driver = opened(half=Half(deliver_at_ms=3 * POLICY.age_limit_ms))
    driver.step(1, COMMIT)
    for now_ms in (POLICY.transaction_timeout_ms, POLICY.age_limit_ms, 2 * POLICY.age_limit_ms):
        assert says_nothing(driver.step(now_ms))
    assert driver.step(3 * POLICY.age_limit_ms).delivered


def test_an_undecided_message_is_checked_whatever_its_time_of_delivery() -> None:
    assert opened(half=LATER).step(POLICY.transaction_timeout_ms).checks


def test_a_delayed_message_is_decided() -> None:
    driver = opened(half=LATER)
    driver.step(1, COMMIT)
    said = driver.step(2, replace(ROLLBACK, op_offset=1), replace(COMMIT, op_offset=2), replace(RESUME, op_offset=3))
    assert said.counts["duplicate"] == 1
    assert [(r.op_offset, r.reason) for r in said.rejected] == [(1, reference.CONFLICT), (3, reference.CONFLICT)]
    assert driver.step(50_000).delivered


def test_a_parked_message_that_an_operator_commits_is_delayed() -> None:
    driver, now_ms = parked(half=Half(deliver_at_ms=POLICY.age_limit_ms + 10))
    assert driver.step(now_ms + 1, OPERATOR_COMMIT).ledger == {0: "delayed"}
    assert driver.step(now_ms + 10).delivered


def test_a_message_committed_after_check_max_is_delayed() -> None:
    policy = replace(POLICY, check_max=0, on_exhausted=Always(Event.EXHAUSTED_COMMIT))
    driver = opened(policy, LATER)
    assert driver.step(POLICY.transaction_timeout_ms).ledger == {0: "delayed"}
    assert driver.step(50_000).delivered


def test_a_bundle_is_delivered_as_one_decision() -> None:
    driver = Driver(POLICY)
    driver.step(0, Half(offset=1, transaction_id="tx-1"), Half(partition=BUNDLE, value=b"several"))
    said = driver.step(1, COMMIT, Op(half_offset=1, op_offset=1, transaction_id="tx-1"))
    assert [message.value for message in said.bundles] == [b"several"]
    assert [message.offset for message in said.delivered] == [1]
    assert said.counts["committed"] == 2


def test_with_a_cap_above_the_interval_pauses_between_checks_double() -> None:
    policy = replace(POLICY, check_interval_max_ms=100_000, check_max=15)
    driver, now_ms = opened(policy), policy.transaction_timeout_ms
    pauses = []
    for number in range(5):
        assert len(driver.step(now_ms).checks) == 1
        timer_ms = driver.step(now_ms, replace(CHECK_UNKNOWN, op_offset=number)).timer_ms
        assert timer_ms is not None
        pauses.append(timer_ms - now_ms)
        now_ms = timer_ms
    assert pauses == [30_000, 60_000, 100_000, 100_000, 100_000]


def test_a_full_segment_fires_no_more_often_than_the_slack_and_no_later() -> None:
    """4,096 open messages that came over 40 s, as batches of half a second: not every batch finds a timer due."""
    policy = replace(POLICY, segment_size=4_096, timer_slack_ms=2_000)
    driver = Driver(policy)
    born: dict[int, int] = {}
    fired, worst_ms, timer_ms = 0, 0, None
    for now_ms in range(0, 60_000, 500):
        came = [Half(offset=at, transaction_id=f"tx-{at}") for at in range(len(born), min(len(born) + 52, 4_096))]
        born |= {half.offset: now_ms for half in came}
        due = timer_ms is not None and timer_ms <= now_ms
        fired += due
        if came or due:
            said = driver.step(now_ms, *came)
            timer_ms = said.timer_ms
            waits = [now_ms - born[check.message.offset] - policy.transaction_timeout_ms for check in said.checks]
            worst_ms = max([worst_ms, *waits])
    assert driver.segment.ledger.tolist() == [State.CHECKING] * 4_096
    assert fired <= 40_000 // policy.timer_slack_ms + 2
    assert worst_ms <= policy.timer_slack_ms


def test_what_a_consumer_group_wants_again_counts_for_the_topic_of_its_retries() -> None:
    topics = ["orders", "cb.retry.shop", "cb.retry.other", "cb.retry.shop", "cb.retry.shop"]
    messages = Rows.blank(MESSAGE_FIELDS, len(topics))
    messages["group"][:], messages["topic"][:] = "shop", objects(topics)
    states = np.array([State.DELAYED, State.DELAYED, State.DELAYED, State.PARKED, State.OPEN], dtype=np.uint8)
    apart = {"shop": Usage(open=1, delayed=2), "cb.retry.shop": Usage(delayed=1, parked=1)}
    assert usage_of(messages, states, "cb.retry.") == apart
    assert usage_of(messages, states) == {"shop": Usage(open=1, delayed=3, parked=1)}
