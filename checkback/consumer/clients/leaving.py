"""Leaving a group, with the brokers there or not: whoever closes a consumer has his own time limit to keep."""

import logging
from collections.abc import Callable

from checkback.kafka.bounded_calls import within

_LOGGER = logging.getLogger(__name__)
LEAVE_SECONDS = 5.0


def leave_in_time(leave: Callable[[], None]) -> None:
    """Leave, and wait for at most :data:`LEAVE_SECONDS`.

    With the brokers suspended librdkafka's call comes back when they do.
    """
    try:
        within(LEAVE_SECONDS, leave)
    except TimeoutError:
        _LOGGER.warning(
            "The group was not left within %.0f s: Kafka does not answer. Others get these partitions when this one's "
            "session has timed out",
            LEAVE_SECONDS,
        )
