"""Calls to Kafka that are retried while the error is a transient one."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from checkback.kafka.librdkafka.errors import is_transient

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0


def retrying(seconds: float = 30.0) -> Callable[..., Any]:
    """Try a call again for that long while it fails with what may pass: ``retrying()(call, argument)``."""
    return retrying_until(lambda _: True, seconds, is_transient)


def retrying_until(
    holds: Callable[[Any], bool], seconds: float, passes: Callable[[BaseException], bool] = lambda _: False
) -> Callable[..., Any]:
    """Make a call again for that long until something holds of what it gives, then give that, or the last one."""

    # tenacity keeps the error in a circle with its own frame, and the callers' clients, which only the garbage
    # collector ends: it is off in Spark's workers, and rare in a driver
    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        until, pause = monotonic() + seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = function(*arguments)
                if holds(answer) or monotonic() >= until:
                    return answer
            except Exception as error:
                if not passes(error) or monotonic() >= until:
                    raise
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    return call
