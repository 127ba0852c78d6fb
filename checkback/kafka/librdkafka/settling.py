"""Settling a lane: what it has delivered is known then, and it delivers no more."""

import logging
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.exceptions import ConfigurationError, KafkaUnreachableError, ProtocolError
from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka import connected, make_client
from checkback.kafka.librdkafka.errors import FENCED, NOT_ALLOWED, error_code, is_transient
from checkback.kafka.librdkafka.groups import committed_by
from checkback.kafka.librdkafka.transactional import StuckError, Transactional, transactional_settings
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms
from checkback.wire.groups import metadata_of
from checkback.wire.lanes import TRANSACTION_TIMEOUT_MS, transactional_id
from checkback.wire.ledger import PARTITION, Ledger
from checkback.wire.protocol import Topics
from checkback.wire.rights import not_allowed, of_settling

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_FENCE_SECONDS = 5.0
_SETTLED_SECONDS = 20.0
"""Longest wait until the last transaction has ended and its ledger can be read: brokers may restart meanwhile."""
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.1


class _NotYetError(Exception):
    """Kafka is away, or busy with itself or the lane; a step of settling is tried again."""


class Settler:
    """Settles lanes, each with a short-lived producer and a consumer that reads the ledger. Threads may share it.

    ``options`` are librdkafka's. Those that tell how to reach Kafka are used, and others left out.

    Raises:
        ConfigurationError: a setting cannot be used.
        KafkaUnreachableError: no Kafka answers.
    """

    def __init__(self, bootstrap_servers: str, topics: Topics, options: Mapping[str, Any]) -> None:
        self._place = (topics.progress, PARTITION)
        reaching = {
            "log_level": 2,
            "reconnect.backoff.max.ms": longest_pause_ms(options, "reconnect.backoff.ms"),
            **of_reaching(options),
            "bootstrap.servers": bootstrap_servers,
        }
        self._settings = {
            # the lane's last transaction is being ended, and whoever asks is told to try again
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 50,
            **transactional_settings("", TRANSACTION_TIMEOUT_MS),
            **reaching,
        }
        self._reading = reaching
        connected(make_client(AdminClient, reaching), bootstrap_servers, CONNECT_MS / 1000)

    def settle(self, group: str, lane: str) -> Ledger | None:
        """Fence the lane, wait until its last transaction has ended either way, and read its ledger.

        What it gives stays true, so it may be kept: a half message in the ledger was delivered. One that is not was
        not, and never will be; or it was and its op is in ``cb.op``, before whatever is written now.
        None: there is no ledger, it has expired for example, so that nobody can know.

        Raises:
            KafkaUnreachableError: retriable; Kafka is away, or has not ended the lane's transaction yet.
            ConfigurationError: Kafka does not allow it; the message says what to allow.
            ProtocolError: this is not a lane's name.
        """
        name = transactional_id(group, lane)
        until = monotonic() + _SETTLED_SECONDS
        _until_answered(name, until, lambda: self._fence(name))  # 1
        metadata = _until_answered(name, until, lambda: self._stored(name))  # 2
        if metadata is None:
            return None
        try:
            return Ledger.parse(metadata)
        except ProtocolError as error:  # written by somebody else who may
            _LOGGER.warning("Nobody can know what lane %s has delivered: %s", name, error)
            return None

    def _fence(self, name: str) -> None:
        """Fence the lane of this transactional id. It returns when its last transaction has ended in each partition."""
        kafka = Transactional({**self._settings, "transactional.id": name})
        try:
            kafka.connect(self._place[0], _FENCE_SECONDS)
            kafka.fence(_FENCE_SECONDS)
        except StuckError as error:
            raise _NotYetError(str(error)) from error
        except KafkaException as error:
            raise self._meant(name, error) from error

    def _stored(self, name: str) -> str | None:
        """What is stored as the lane's ledger, by a transaction that has ended; None: nothing."""
        try:
            (found,) = committed_by(name, [TopicPartition(*self._place)], self._reading)
        except KafkaException as error:
            raise self._meant(name, error) from error
        return None if found.offset < 0 else metadata_of(found)

    def _meant(self, name: str, error: KafkaException) -> Exception:
        if error_code(error) in NOT_ALLOWED:
            return not_allowed(f"whoever settles lane {name}", error, list(of_settling(self._place[0])))
        reason = error.args[0].str()
        if is_transient(error) or error_code(error) in FENCED:  # by another who settles
            return _NotYetError(reason)
        return ConfigurationError(f"Lane {name} cannot be settled: {reason}. Lanes need brokers of Kafka 3.0 or later.")


def _until_answered(name: str, until: float, step: Callable[[], T]) -> T:
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return step()
        except _NotYetError as error:
            if monotonic() >= until:
                message = f"Lane {name} could not be settled within {_SETTLED_SECONDS:.0f} s: {error}"
                raise KafkaUnreachableError(message) from error
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
