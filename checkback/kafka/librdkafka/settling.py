"""Settles lanes with confluent-kafka: a short-lived producer for each, and a consumer that reads its ledger."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka import connected, make_client
from checkback.kafka.librdkafka.errors import FENCED, NOT_ALLOWED, error_code, is_transient
from checkback.kafka.librdkafka.group_offsets import committed_by
from checkback.kafka.librdkafka.transactional import StuckError, Transactional, transactional_settings
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms
from checkback.kafka.settling_steps import NotYetError, StepwiseSettler, not_settled
from checkback.wire.beside_offsets import metadata_of
from checkback.wire.lanes import TRANSACTION_TIMEOUT_MS
from checkback.wire.ledger import PARTITION
from checkback.wire.protocol import Topics
from checkback.wire.rights import not_allowed, of_settling

_FENCE_SECONDS = 5.0


class ConfluentSettler(StepwiseSettler):
    """See :class:`~checkback.kafka.settling.Settler`."""

    def __init__(self, bootstrap_servers: str, topics: Topics, options: Mapping[str, Any]) -> None:
        super().__init__()
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

    def close(self) -> None:
        """See :class:`~checkback.kafka.settling.Settler`."""
        # each client ends with the call that made it

    def _fence(self, name: str) -> None:
        kafka = Transactional({**self._settings, "transactional.id": name})
        try:
            kafka.connect(self._place[0], _FENCE_SECONDS)
            kafka.fence(_FENCE_SECONDS)
        except StuckError as error:
            raise NotYetError(str(error)) from error
        except KafkaException as error:
            raise self._meant(name, error) from error

    def _stored(self, name: str) -> str | None:
        try:
            (found,) = committed_by(name, [TopicPartition(*self._place)], self._reading)
        except KafkaException as error:
            raise self._meant(name, error) from error
        return None if found.offset < 0 else metadata_of(found)

    def _meant(self, name: str, error: KafkaException) -> Exception:
        if error_code(error) in NOT_ALLOWED:
            return not_allowed(f"whoever settles lane {name}", error, list(of_settling(self._place[0])))
        if is_transient(error) or error_code(error) in FENCED:  # by another who settles
            return NotYetError(error.args[0].str())
        return not_settled(name, error.args[0].str())
