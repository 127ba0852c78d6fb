"""Calls to Kafka that are retried while the error is a transient one."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

# Besides those that Kafka's clients call retriable: a coordinator that has just started or moved.
_TRANSIENT = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    }
)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and (error.args[0].code() in _TRANSIENT or error.args[0].retriable())


def retrying(seconds: float = 30.0) -> Retrying:
    """Try a call again for that long while it fails with what may pass: ``retrying()(call, argument)``."""
    return Retrying(
        retry=retry_if_exception(_is_transient),
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
