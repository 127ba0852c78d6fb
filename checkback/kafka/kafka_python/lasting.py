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
        self._closed = False

    @property
    def client(self) -> KafkaProducer:
        """The one to use now. While one thread makes it, which may take seconds, others have the old one."""
        if _has_failed(self._client) and self._changing.acquire(blocking=False):
            try:
                if _has_failed(self._client) and self._clock() >= self._next_at:
                    self._replace()
                    self._next_at = self._clock() + _SECONDS
            finally:
                self._changing.release()
        return self._client

    def flush(self, seconds: float) -> None:
        """Wait until what is under way is in Kafka, for at most ``seconds``.

        Raises:
            KafkaTimeoutError: it is not.
        """
        self._client.flush(timeout=seconds)

    def close(self, seconds: float) -> None:
        """See :func:`~checkback.kafka.kafka_python.repairs.close_producer`. None takes its place any more."""
        self._closed = True
        close_producer(self._client, seconds)

    def _replace(self) -> None:
        if self._closed:
            return
        with contextlib.suppress(KafkaError, CheckbackError):  # the old one says why it has failed
            new, old = self._make(), self._client
            _LOGGER.warning("A Kafka client failed, and another one takes its place: %s", _reason(old))
            self._client = new
            in_thread(lambda: close_producer(old, 0))


def _has_failed(client: KafkaProducer) -> bool:
    return bool(client._transaction_manager.has_fatal_error())  # noqa: SLF001  (nothing else says so in time)


def _reason(client: KafkaProducer) -> object:
    return client._transaction_manager.last_error  # noqa: SLF001  (likewise)
