"""The small cases that tests of single rules begin with."""

from state import Policy
from tests.state.records import Driver, Half, Said

SECOND = 1_000
POLICY = Policy(
    transaction_timeout_ms=6 * SECOND,
    check_interval_ms=30 * SECOND,
    check_interval_max_ms=30 * SECOND,
    check_max=3,
    check_answer_ttl_ms=120 * SECOND,
    unreachable_backoff_max_ms=100 * SECOND,
    age_limit_ms=3_600 * SECOND,
    parked_ttl_ms=7_200 * SECOND,
    early_op_ttl_ms=600 * SECOND,
    early_op_max=2,
    timer_slack_ms=1,
    segment_size=64,
)


def opened(policy: Policy = POLICY, half: Half | None = None) -> Driver:
    """A segment whose half message at offset 0 came at 0."""
    driver = Driver(policy)
    driver.step(0, half or Half())
    return driver


def checking(policy: Policy = POLICY) -> tuple[Driver, int]:
    """The same when its first check has just been asked for, and the time of that."""
    driver = opened(policy)
    now_ms = policy.transaction_timeout_ms
    assert driver.step(now_ms).checks
    return driver, now_ms


def says_nothing(said: Said) -> bool:
    """Whether nothing is written, counts apart."""
    of_messages = (said.delivered, said.bundles, said.checks, said.parked)
    return not any((*of_messages, said.rejected, said.broken, said.statuses, said.ended))


def parked(policy: Policy = POLICY, half: Half | None = None) -> tuple[Driver, int]:
    """A segment whose half message at offset 0 has just been parked for its age, and the time of that."""
    driver = opened(policy, half)
    now_ms = policy.age_limit_ms
    assert driver.step(now_ms).parked
    return driver, now_ms
