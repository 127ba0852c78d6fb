"""Leaving a group, with the brokers there or not: whoever closes a consumer has his own time limit to keep."""

import contextlib
import logging
from collections.abc import Callable
from time import monotonic

from checkback.kafka.bounded_calls import within
from checkback.kafka.librdkafka.library import Consumer, KafkaException

_LOGGER = logging.getLogger(__name__)
LEAVE_SECONDS = 5.0
_POLL_SECONDS = 0.01


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


def leave(consumer: Consumer) -> None:
    """Leave the group, and close."""
    with contextlib.suppress(KafkaException, RuntimeError):
        # close() alone does not leave the group if there are no partitions, or if it overtakes the revocation that
        # unsubscribe() starts (librdkafka 2.16): the others would wait until the session times out. librdkafka
        # drops its member id when it sends the request to leave.
        consumer.unsubscribe()
        deadline = monotonic() + LEAVE_SECONDS
        while consumer.memberid() and monotonic() < deadline:
            consumer.consume(1, _POLL_SECONDS)
        consumer.close()
