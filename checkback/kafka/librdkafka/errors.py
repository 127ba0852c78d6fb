"""What librdkafka's errors mean for whoever holds the client."""

import contextlib
import logging
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException

_LOGGER = logging.getLogger(__name__)
TIMED_OUT = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
"""Nothing was heard of it in time."""


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can do no more. All its calls say so from then on, with ``_FATAL`` instead of the reason."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL


def is_spent(error: KafkaError) -> bool:
    """Whether another client may do better: this one can do no more, or it has not heard of a record in time.

    An idempotent producer cannot go on, for example, when the broker has lost what it knew of its records
    (OUT_OF_ORDER_SEQUENCE_NUMBER): an unclean restart, a log that was cut short.
    """
    return is_fatal(error) or error.code() in TIMED_OUT


def polled(client: Any, seconds: float) -> None:
    """Serve what ``client`` has to report, for at most ``seconds``.

    A fatal error is raised by the call that happens to serve it, once, also where there is an ``error_cb``
    (confluent-kafka 2.16). The records under way are reported by the next call.
    """
    try:
        client.poll(seconds)
    except KafkaException as error:
        _told(error)


def flushed(client: Any, seconds: float) -> None:
    """Wait until ``client`` has nothing under way any more, for at most ``seconds``.

    See :func:`polled`; but this call goes on to the reports with the exception set, of which then none can do anything
    (``SystemError``). Whoever writes next is told.
    """
    deadline = monotonic() + seconds
    try:
        client.flush(seconds)
    except (KafkaException, SystemError) as error:
        _told(error)
        with contextlib.suppress(KafkaException, SystemError):
            client.flush(max(0.0, deadline - monotonic()))


def _told(error: Exception) -> None:
    _LOGGER.warning("A Kafka client failed, and another one takes its place: %s", error)
