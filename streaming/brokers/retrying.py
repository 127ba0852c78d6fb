"""Calls to Kafka that are retried while the error is a transient one."""

from collections.abc import Callable
from typing import Any

from tenacity import Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

from checkback.kafka.librdkafka.errors import is_transient


def retrying(seconds: float = 30.0) -> Retrying:
    """Try a call again for that long while it fails with what may pass: ``retrying()(call, argument)``."""
    return Retrying(
        retry=retry_if_exception(is_transient),
        wait=wait_exponential(0.05, max=1),
        stop=stop_after_delay(seconds),
        reraise=True,
    )


def retrying_until(holds: Callable[[Any], bool], seconds: float) -> Retrying:
    """Make a call again for that long until something holds of what it gives, then give that, or the last one."""
    return Retrying(
        retry=retry_if_result(lambda given: not holds(given)),
        wait=wait_exponential(0.05, max=1),
        stop=stop_after_delay(seconds),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
