"""What a process of a Django project has one of: its producer, and the announcement of its check endpoint.

Both are made when they are first needed, so that neither a command that sends nothing nor the parent of forked workers
has clients of Kafka. A forked child makes its own; those of its parent it leaves alone.
"""

import atexit
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, partial
from typing import Any

from django.core.signals import setting_changed

from checkback.answering.endpoint import EndpointAnnouncer
from checkback.django.configuration import ASYNC_VIEW, DjangoSettings, configuration
from checkback.django.transaction_log import DjangoTransactionLog
from checkback.exceptions import CheckbackError
from checkback.greenlets import refuse_greenlets
from checkback.producing.producer import TransactionProducer

_LOGGER = logging.getLogger(__name__)
_AGAIN_SECONDS = 10.0
_CLOSE_SECONDS = 6.0


class Announcing:
    """A thread that announces the endpoint, as soon as Kafka answers: a site is not to wait for that."""

    def __init__(self, given: DjangoSettings) -> None:
        self._make = partial(
            EndpointAnnouncer,
            given.bootstrap_servers,
            given.group,
            given.url or "",
            answers_for=given.answers_for,
            topics=given.topics,
            kafka_options=given.announcer_options,
            signing=given.signing,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkback-announcing", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take it back, if Kafka answers; else it lapses by itself after a minute."""
        self._ended.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                announcer = self._make()
            except CheckbackError as error:
                _LOGGER.warning("The check endpoint is not announced, next try in %.0f s: %s", _AGAIN_SECONDS, error)
                self._ended.wait(_AGAIN_SECONDS)
            else:
                self._ended.wait()
                announcer.close()


class _OfThisProcess:
    """The producer and the announcement; at most one of each."""

    def __init__(self) -> None:
        self._of_parents: list[Any] = []
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._producer: TransactionProducer | None = None
        self._announcing: Announcing | None = None

    def after_fork(self) -> None:
        """Leave to the parent what is the parent's: nothing of it is closed, nor given to the collector."""
        self._of_parents += [self._producer, self._announcing]
        self._begin()

    def producer(self) -> TransactionProducer:
        """Make it, unless it is there."""
        if self._producer is None:
            given = configuration()
            with self._lock:
                if self._producer is None:
                    self._producer = _made(given)
            self.announce(given)
        return self._producer

    def announce(self, given: DjangoSettings) -> None:
        """Announce the endpoint, where settings name its address, unless it is announced."""
        with self._lock:
            if given.url is not None and self._announcing is None:
                self._announcing = Announcing(given)

    def close(self) -> None:
        """End both; the next use makes new ones. Takes no lock: at exit a thread may have ended with it."""
        made, announcing = self._producer, self._announcing
        self._producer = self._announcing = None
        if announcing is not None:
            announcing.close()
        if made is not None:
            made.close()

    @contextmanager
    def replaced(self, other: TransactionProducer) -> Iterator[None]:
        """Another producer, for a test; nothing is announced meanwhile."""
        before, self._producer = self._producer, other
        try:
            yield
        finally:
            self._producer = before
            other.close()


_PROCESS = _OfThisProcess()
os.register_at_fork(after_in_child=_PROCESS.after_fork)
atexit.register(_PROCESS.close)


def producer() -> TransactionProducer:
    """The producer of this process, made of ``CHECKBACK`` in settings.py when it is first asked for; closed at exit.

    For what ``transactional`` does not do: ``producer().send(...)``, ``send_later``.

    Raises:
        ConfigurationError: settings are wrong, or Kafka does not answer; the next call tries again.
    """
    return _PROCESS.producer()


def announce() -> None:
    """Announce this project's check endpoint from now on: call it at the end of ``wsgi.py`` or ``asgi.py``.

    Does not wait for Kafka. Without it the first message announces, and what an earlier process has left in doubt waits
    until then. Nothing where settings have no URL.

    Raises:
        ConfigurationError: settings are wrong, or this process has greenlets for threads.
    """
    refuse_greenlets(*ASYNC_VIEW)
    _PROCESS.announce(configuration())


def transaction_log() -> DjangoTransactionLog:
    """The log of ``CHECKBACK`` in settings.py, one for this process: it remembers which tables it has looked at."""
    given = configuration()
    with _MAKING:  # the cache alone makes one for each of the threads that ask first at once
        return _log(given.databases, given.lock_timeout_ms, given.prune_after)


_MAKING = threading.Lock()


@cache
def _log(databases: tuple[str, ...], lock_timeout_ms: int, prune_after: timedelta | None) -> DjangoTransactionLog:
    return DjangoTransactionLog(databases, lock_timeout_ms=lock_timeout_ms, prune_after=prune_after)


replaced = _PROCESS.replaced
"""For :mod:`checkback.django.testing`."""


def _made(given: DjangoSettings) -> TransactionProducer:
    return TransactionProducer(
        given.bootstrap_servers,
        given.group,
        topics=given.topics,
        half_timeout_ms=given.half_timeout_ms,
        transport=given.transport,
        kafka_options=given.kafka_options,
        missing_topic=given.missing_topic,
        delivery=given.delivery,
        signing=given.signing,
    )


def _changed(*, setting: str, **_: Any) -> None:
    if setting == "CHECKBACK":  # override_settings in a test
        _PROCESS.close()
        _log.cache_clear()


setting_changed.connect(_changed)
