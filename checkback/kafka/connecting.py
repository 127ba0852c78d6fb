"""Which Kafka client a producer uses."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from checkback.exceptions import ConfigurationError
from checkback.greenlets import refuse_greenlets
from checkback.installing import extra
from checkback.kafka.kafka_python.transport import KafkaPythonTransport
from checkback.kafka.transport import Transport

LEAST_HALF_TIMEOUT_MS, MOST_HALF_TIMEOUT_MS = 100, 3_600_000


class TransportName(StrEnum):
    """The transports there are."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent-kafka"
    """Needs the extra ``fast``."""


def connect(
    name: TransportName | str,
    bootstrap_servers: str,
    half_timeout_ms: int,
    options: Mapping[str, Any],
    *,
    hears_ops: bool = False,
) -> Transport:
    """Connect a producer's transport. ``options`` are further settings of its client, under that client's names.

    ``hears_ops``: it is also to say that Kafka has an op (``TellingTransport``).

    Raises:
        ConfigurationError: there is no such transport, its package is missing, this process has greenlets for threads,
            a setting cannot be, or Kafka does not answer.
    """
    if type(half_timeout_ms) is not int or not LEAST_HALF_TIMEOUT_MS <= half_timeout_ms <= MOST_HALF_TIMEOUT_MS:
        raise ConfigurationError(
            f"half_timeout_ms must be a whole number of ms, from {LEAST_HALF_TIMEOUT_MS} to {MOST_HALF_TIMEOUT_MS}, "
            f"not {half_timeout_ms!r}."
        )
    if name not in tuple(TransportName):
        raise ConfigurationError(f"There is no transport {name!r}: use {' or '.join(TransportName)}.")
    if name != TransportName.CONFLUENT:
        return KafkaPythonTransport(bootstrap_servers, half_timeout_ms, options)
    try:
        from checkback.kafka.librdkafka.transport import ConfluentTransport  # noqa: PLC0415  (may not be installed)
    except ImportError as error:
        raise ConfigurationError(f"The transport confluent-kafka needs: {extra('fast')}.") from error
    refuse_greenlets("The transport confluent-kafka", "its waits block every greenlet. Use kafka-python there.")
    return ConfluentTransport(bootstrap_servers, half_timeout_ms, options, hears_ops=hears_ops)
