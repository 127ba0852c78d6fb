"""From settings to the policy of the state machine."""

from conf import TransactionSettings
from state import Policy
from streaming.stateful.exhausted_policy import on_exhausted


def policy_of(given: TransactionSettings, *, tables: bool = False, retry_prefix: str = "") -> Policy:
    """The rules' numbers and choices, as the settings give them; ``tables``: whether any message is for one.

    Raises:
        ConfigurationError: the class that ``on_exhausted`` names cannot be used.
    """
    return Policy(
        transaction_timeout_ms=given.timeout,
        check_interval_ms=given.check_interval,
        check_interval_max_ms=given.check_interval_max,
        check_max=given.check_max,
        on_exhausted=on_exhausted(given.on_exhausted),
        late_end_needs_check=given.late_end_transaction == "require_check",
        check_answer_ttl_ms=given.check_answer_ttl,
        unreachable_backoff_max_ms=given.unreachable_backoff_max,
        age_limit_ms=given.age_limit,
        delay_max_ms=given.delay_max,
        parked_ttl_ms=given.parked_ttl,
        early_op_ttl_ms=given.early_op_ttl,
        early_op_max=given.early_op_max,
        tables=tables,
        timer_slack_ms=given.timer_slack,
        segment_size=given.segment_size,
        retry_prefix=retry_prefix,
    )
