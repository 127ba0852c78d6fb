"""A producer of kafka-python's that outlasts its own end."""

import contextlib
import logging
from collections.abc import Callable
from threading import Lock
from time import monotonic

from kafka import KafkaProducer
from kafka.errors import KafkaError

from checkback.exceptions import CheckbackError
from checkback.kafka.bounded_calls import in_thread
from checkback.kafka.kafka_python.repairs import close_producer

_LOGGER = logging.getLogger(__name__)
_SECONDS = 1.0
"""Between two clients: each of them asks Kafka before it says that it cannot be."""


class LastingProducer:
    """Makes another client where the last one can do no more: Kafka refused it, and may not any more.

    An idempotent producer of kafka-python's that was not given a producer id once fails for ever. What was under way
    on it is reported as lost. Threads may share one. ``clock`` is in seconds.
    """

    def __init__(self, make: Callable[[], KafkaProducer], clock: Callable[[], float] = monotonic) -> None:
        self._make = make
        self._clock = clock
        self._changing = Lock()
        self._client = make()
        self._next_at = clock() + _SECONDS

    @property
    def client(self) -> KafkaProducer:
        """The one that is to be used now."""
        if _has_failed(self._client):
            with self._changing:
                if _has_failed(self._client) and self._clock() >= self._next_at:
                    self._replace()
                    self._next_at = self._clock() + _SECONDS
        return self._client

    def close(self, seconds: float) -> None:
        """See :func:`~checkback.kafka.kafka_python.repairs.close_producer`."""
        close_producer(self._client, seconds)

    def _replace(self) -> None:
        with contextlib.suppress(KafkaError, CheckbackError):  # the old one says why it has failed
            new, old = self._make(), self._client
            _LOGGER.warning("A Kafka client failed, and another one takes its place: %s", _reason(old))
            self._client = new
            in_thread(lambda: close_producer(old, 0))


def _has_failed(client: KafkaProducer) -> bool:
    return bool(client._transaction_manager.has_fatal_error())  # noqa: SLF001  (nothing else says so in time)


def _reason(client: KafkaProducer) -> object:
    return client._transaction_manager.last_error  # noqa: SLF001  (likewise)
