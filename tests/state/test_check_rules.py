"""Every rule of checks and of giving up by name."""

from dataclasses import replace

import pytest

from tests.state import reference
from tests.state.ops import CHECK_UNKNOWN, COMMIT, ROLLBACK, UNREACHABLE
from tests.state.records import ANSWERS, Driver, Half, Message, Op
from tests.state.small import POLICY, SECOND, checking, opened, says_nothing


def test_no_check_before_the_transaction_timeout_and_one_after() -> None:
    driver = opened(half=Half(value=b"v"))
    assert says_nothing(driver.step(POLICY.transaction_timeout_ms - 1))
    said = driver.step(POLICY.transaction_timeout_ms)
    [check] = said.checks
    assert (check.attempt, check.check_max) == (1, 3)
    assert check.message == Message(0, "tx", "orders", "paid", -1, b"key", b"v", None, ingested_ms=0)
    assert [(status.transaction_id, status.attempt, status.check_max) for status in said.statuses] == [("tx", 1, 3)]
    assert (said.counts, said.ledger) == ({"checked": 1}, {0: "checking"})


@pytest.mark.parametrize("immunity_ms", [0, 1_000, 20_000])
def test_immunity_replaces_the_timeout(immunity_ms: int) -> None:
    driver = Driver(POLICY)
    said = driver.step(10, Half(immunity_ms=immunity_ms))
    if immunity_ms:
        assert not said.checks
        assert said.timer_ms == 10 + immunity_ms
        assert not driver.step(10 + immunity_ms - 1).checks
        said = driver.step(10 + immunity_ms)
    assert len(said.checks) == 1


def test_the_next_check_comes_an_interval_after_the_last() -> None:
    driver, asked_ms = checking()
    answered = driver.step(asked_ms + 10 * SECOND, CHECK_UNKNOWN)
    assert answered.ledger == {0: "open"}
    assert not answered.checks
    assert answered.timer_ms == asked_ms + POLICY.check_interval_ms
    assert not driver.step(asked_ms + POLICY.check_interval_ms - 1).checks
    assert [check.attempt for check in driver.step(asked_ms + POLICY.check_interval_ms).checks] == [2]


@pytest.mark.parametrize("after_all", ["check_unknown", "check_commit", "check_rollback"])
def test_an_answer_after_unreachable_counts_as_one_more_question_and_a_repeated_one_not_at_all(after_all: str) -> None:
    driver, asked_ms = checking()

    def tallies(*ops: Op) -> dict[str, int]:
        counted = driver.step(asked_ms + 10 * SECOND, *ops).tallies
        return {tally.name: number for tally, number in counted.items() if tally.name in {"checked", *ANSWERS}}

    assert tallies(UNREACHABLE, replace(UNREACHABLE, op_offset=1)) == {"check_unreachable": 1}
    verdict = replace(UNREACHABLE, says=after_all, op_offset=2)
    assert tallies(verdict) == {"checked": 1, after_all: 1}
    assert tallies(replace(verdict, op_offset=3)) == {}


def test_at_most_one_check_is_outstanding() -> None:
    driver, asked_ms = checking()
    for now_ms in range(asked_ms, asked_ms + POLICY.check_answer_ttl_ms, POLICY.check_interval_ms // 2):
        assert says_nothing(driver.step(now_ms))


def test_a_lost_answer_is_asked_for_again_and_uses_no_attempt() -> None:
    driver, asked_ms = checking()
    for _ in range(2 * POLICY.check_max):
        asked_ms += POLICY.check_answer_ttl_ms
        assert says_nothing(driver.step(asked_ms - 1))
        assert [check.attempt for check in driver.step(asked_ms).checks] == [1]


def test_an_answer_nobody_waits_for_is_a_duplicate_and_uses_no_attempt() -> None:
    driver, asked_ms = checking()
    answers = (CHECK_UNKNOWN, CHECK_UNKNOWN, UNREACHABLE)
    said = driver.step(asked_ms + 1, *(replace(answer, op_offset=at) for at, answer in enumerate(answers)))
    assert said.counts["duplicate"] == 2
    assert [check.attempt for check in driver.step(asked_ms + POLICY.check_interval_ms).checks] == [2]


def test_unreachable_uses_no_attempt_and_backs_off_up_to_a_cap() -> None:
    driver, now_ms = checking()
    pauses = []
    for _ in range(6):
        answered = driver.step(now_ms, UNREACHABLE)
        assert answered.ledger == {0: "open"}
        timer_ms = answered.timer_ms
        assert timer_ms is not None
        assert says_nothing(driver.step(timer_ms - 1))
        assert [check.attempt for check in driver.step(timer_ms).checks] == [1]
        pauses.append(timer_ms - now_ms)
        now_ms = timer_ms
    assert pauses == [30_000, 60_000, *[100_000] * 4]


def test_a_status_is_written_with_the_first_check_and_with_each_answer_and_says_which() -> None:
    driver, now_ms = checking()
    written = []
    for answer in (UNREACHABLE, UNREACHABLE, None, CHECK_UNKNOWN, None, UNREACHABLE):
        answered = driver.step(now_ms, *([answer] if answer else []))
        written.append([(status.attempt, status.reason, status.misses) for status in answered.statuses])
        now_ms = answered.timer_ms or 0
        said = driver.step(now_ms)
        assert said.checks
        assert not said.statuses
    unknown = (1, "unknown", 0)
    assert written == [[(1, "unreachable", 1)], [(1, "unreachable", 2)], [], [unknown], [], [(2, "unreachable", 1)]]


def test_an_answer_is_told_at_once_with_what_it_says_and_when_it_is_asked_again() -> None:
    driver, asked_ms = checking()
    (status,) = driver.step(asked_ms + 7, replace(CHECK_UNKNOWN, value=b"no such order")).statuses
    assert (status.remark, status.asked_ago_ms, status.pause_ms) == (b"no such order", 7, POLICY.check_interval_ms - 7)
    now_ms = asked_ms + POLICY.check_interval_ms
    assert driver.step(now_ms).checks
    (status,) = driver.step(now_ms + 5, replace(UNREACHABLE, value=b"x" * 2_000)).statuses
    assert (status.remark, status.asked_ago_ms, status.pause_ms) == (b"x" * 512, 5, POLICY.check_interval_ms)


@pytest.mark.parametrize("then", [COMMIT, ROLLBACK])
def test_an_answer_that_a_decision_follows_in_the_same_batch_is_not_told(then: Op) -> None:
    driver, asked_ms = checking()
    said = driver.step(asked_ms + 1, CHECK_UNKNOWN, replace(then, op_offset=CHECK_UNKNOWN.op_offset + 1))
    assert not said.statuses
    assert len(said.ended) == 1


def test_a_message_that_is_resumed_has_a_status_with_its_first_check_again() -> None:
    driver = Driver(replace(POLICY, check_max=0))
    assert driver.step(0, Half()).timer_ms
    assert driver.step(POLICY.transaction_timeout_ms).parked
    driver.policy = POLICY
    said = driver.step(POLICY.transaction_timeout_ms + 1, Op("resume", source="operator"))
    assert [(status.attempt, status.reason) for status in said.statuses] == [(1, "")]


@pytest.mark.parametrize(("size", "left_out"), [(65_536, -1), (65_537, 65_537)])
def test_a_check_has_the_value_of_a_small_message_and_says_how_large_another_is(size: int, left_out: int) -> None:
    value = b"v" * size
    (check,) = Driver(POLICY).step(0, Half(value=value, immunity_ms=0)).checks
    assert (check.left_out, check.message.value) == (left_out, value if left_out < 0 else None)
    assert check.message.key == b"key"


def test_an_answer_without_a_verdict_ends_the_backing_off() -> None:
    driver, now_ms = checking()
    for answer in (UNREACHABLE, UNREACHABLE, CHECK_UNKNOWN):
        now_ms = driver.step(now_ms, answer).timer_ms or 0
        assert driver.step(now_ms).checks
    assert driver.step(now_ms, UNREACHABLE).timer_ms == now_ms + POLICY.check_interval_ms


@pytest.mark.parametrize(("own", "most"), [(-1, 3), (0, 0), (1, 1), (5, 5)])
def test_parked_after_check_max_answers_be_it_the_policy_s_or_the_message_s_own(own: int, most: int) -> None:
    driver = Driver(POLICY)
    said = driver.step(0, Half(check_max=own))
    attempts: list[tuple[int, int]] = []
    while not said.parked:
        assert said.timer_ms is not None
        now_ms = said.timer_ms
        said = driver.step(now_ms)
        assert said.checks or said.parked
        if said.checks:
            attempts += [(check.attempt, check.check_max) for check in said.checks]
            said = driver.step(now_ms, CHECK_UNKNOWN)
    assert attempts == [(attempt, most) for attempt in range(1, most + 1)]
    [parked] = said.parked
    assert (parked.attempts, parked.reason) == (most, reference.EXHAUSTED)
    assert parked.message.value == b"value"
    assert (said.counts, said.ledger) == ({"parked": 1}, {0: "parked"})


@pytest.mark.parametrize("asked", [False, True])
def test_the_age_limit_parks(*, asked: bool) -> None:
    policy = replace(POLICY, age_limit_ms=50 * SECOND)
    driver = opened(policy, Half(immunity_ms=-1 if asked else 80 * SECOND))
    if asked:
        assert driver.step(6 * SECOND).checks
    before = driver.step(50 * SECOND - 1)
    assert says_nothing(before)
    assert before.timer_ms == 50 * SECOND
    said = driver.step(50 * SECOND)
    assert [(parked.attempts, parked.reason) for parked in said.parked] == [(0, reference.AGED)]
    assert not said.checks
    assert len(said.ended) == asked


@pytest.mark.parametrize("last", [COMMIT, ROLLBACK])
def test_the_status_of_a_checked_transaction_ends_with_it(last: Op) -> None:
    driver, now_ms = checking()
    said = driver.step(now_ms + 1, last)
    assert [(end.offset, end.transaction_id, end.group) for end in said.ended] == [(0, "tx", "orders")]
    never_checked = opened().step(1, last)
    assert never_checked.ended == []
