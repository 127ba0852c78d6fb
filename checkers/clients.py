"""The Kafka clients of the check service: opened together, and closed in order whatever goes wrong meanwhile."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import (
    KafkaAdminClient,
    KafkaConsumer,
    TopicAuthorizationFailedError,
    TopicPartition,
)
from checkback.kafka.kafka_python.repairs import begin_anew_when_lost
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.wire.groups import checkers_group
from conf import Settings

_LOGGER = logging.getLogger(__name__)
_MOST_RECORDS = 500
_MOST_READ = 5_000
_FETCH_BYTES = 16 * 1024 * 1024
_SESSION_MS = 10_000
_LINGER_MS = 5
_ANSWER_MS = 30_000
"""After which an answer that Kafka has not acknowledged is written by another client."""
_ADDRESS = "kafka.bootstrap_servers"
_METADATA_MS = 30_000
_LEAST_SECONDS = 0.3  # for each step of the closing, also when time is up


class KafkaClients:
    """Reads ``cb.check`` as one of the consumer group and again for itself, and ``cb.producers``; writes answers.

    Raises:
        ConfigurationError: kafka.client_options has what is wrong, or ours to set.
        KafkaUnreachableError: no Kafka answers.
        KafkaError: it takes none of ours.
    """

    def __init__(self, settings: Settings) -> None:
        kafka = settings.kafka
        topics = kafka.topics
        self._opened: list[tuple[str, Callable[[float], None]]] = []
        self._connect_settler = partial(Settler, kafka.bootstrap_servers, topics, kafka.sink_client)
        self._settler: Settler | None = None
        self._settler_lock = threading.Lock()
        self._closing = False
        _refuse_hidden(settings, topics.check)
        try:
            of_checks = {
                "isolation_level": "read_committed",
                "max_poll_records": _MOST_RECORDS,
                "fetch_max_bytes": _FETCH_BYTES,
            }
            # A service that was killed holds its partitions for that long.
            member = {"group_id": checkers_group(topics), "session_timeout_ms": _SESSION_MS}
            self.checks: Any = reader(settings, **of_checks, **member)
            begin_anew_when_lost(self.checks)
            self.checks.subscribe([topics.check])
            # First of all: until it has left the group, others wait for it to join, and nobody reads its partitions.
            self._opened.append(("leaving the group", partial(_close, self.checks)))
            # Not one of the group: it reads again what was committed with a note that it waits.
            self.again: Any = reader(settings, **of_checks)
            self._opened.append(("closing the consumer of waiting checks", partial(_close, self.again)))
            self.registry: Any = reader(settings)
            self._opened.append(("closing the registry's consumer", partial(_close, self.registry)))
            self.registry.assign([TopicPartition(topics.producers, 0)])
            # an op topic that was grown is noticed soon: answers to a partition that is not known wait
            answering = {"linger.ms": _LINGER_MS, "topic.metadata.refresh.interval.ms": _METADATA_MS}
            self.answers: Any = ConfluentTransport(
                kafka.bootstrap_servers, _ANSWER_MS, {**answering, **kafka.sink_client}, hears_ops=True
            )
            self._opened.append(("closing the producer", self.answers.close))
        except BaseException:
            self.close(_LEAST_SECONDS)
            raise

    def settler(self) -> Settler:
        """What settles lanes; made when the first lane is to be settled. For any thread.

        Raises:
            KafkaUnreachableError: no Kafka answers, or these are being closed.
        """
        with self._settler_lock:
            if self._closing:
                raise KafkaUnreachableError("The check service is closing: whoever comes next settles.")
            if self._settler is None:
                self._settler = self._connect_settler()
            return self._settler

    def close(self, seconds: float) -> None:
        """Close all, the group's member first. What fails, or is slow, keeps no other from being closed."""
        deadline = time.monotonic() + seconds
        with self._settler_lock:
            self._closing = True
        for what, close in self._opened:
            try:
                close(max(_LEAST_SECONDS, deadline - time.monotonic()))
            except Exception as error:  # noqa: BLE001  (the others have to be closed)
                _LOGGER.warning("The check service is closing, and %s failed: %r", what, error)
        self._opened.clear()


def reader(settings: Settings, **own: Any) -> Any:
    """A consumer that stores no offset by itself; ``own``: further settings of it. Raises as :class:`KafkaClients`."""
    reading = {
        "bootstrap_servers": settings.kafka.bootstrap_servers,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        # a topic that is made again is found soon, also where it was looked for while there was none
        "metadata_max_age_ms": _METADATA_MS,
    }
    return make_client(KafkaConsumer, {**reading, **own}, settings.kafka.python_client, SHARED, setting=_ADDRESS)


def connect_reader(settings: Settings) -> Any:
    """A consumer for many records of other topics. Raises as :class:`KafkaClients`."""
    many = {"isolation_level": "read_committed", "max_poll_records": _MOST_READ, "fetch_max_bytes": _FETCH_BYTES}
    return reader(settings, **many)


def _refuse_hidden(settings: Settings, topic: str) -> None:
    """A member of a group that may not see its topic gets no partition, and hears nothing of why.

    Raises:
        TopicAuthorizationFailedError: it may not.
    """
    client = {"bootstrap_servers": settings.kafka.bootstrap_servers}
    with closing(
        make_client(KafkaAdminClient, client, settings.kafka.python_client, SHARED, setting=_ADDRESS)
    ) as admin:
        (found,) = admin.describe_topics([topic])
    if found["error_code"] == TopicAuthorizationFailedError.errno:
        raise TopicAuthorizationFailedError(topic)


def _close(consumer: Any, seconds: float) -> None:
    """One of a group leaves it so."""
    consumer.close(autocommit=False, timeout_ms=int(seconds * 1000))
