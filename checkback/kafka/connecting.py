"""Which Kafka client something uses: one rule for producers, consumers and pull consumers."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from checkback.exceptions import ConfigurationError
from checkback.installing import extra
from checkback.kafka.transport import Transport

T = TypeVar("T")
_Connect = Callable[[str, int, Mapping[str, Any]], Transport]
LEAST_HALF_TIMEOUT_MS, MOST_HALF_TIMEOUT_MS = 100, 3_600_000


class TransportName(StrEnum):
    """The transports there are."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent-kafka"
    """Needs the extra ``fast``."""


def of_library(name: TransportName | str, kafka_python: Callable[[], T], confluent: Callable[[], T]) -> T:
    """What the library of this name has for it.

    Args:
        name: the library's.
        kafka_python: imports it of kafka-python, and gives it.
        confluent: likewise of confluent-kafka, which may not be installed.

    Raises:
        ConfigurationError: there is no such library, or it is not installed.
    """
    if name == TransportName.KAFKA_PYTHON:
        return kafka_python()
    if name == TransportName.CONFLUENT:
        try:
            return confluent()
        except ImportError as error:
            raise ConfigurationError(f"The transport confluent-kafka needs: {extra('fast')}.") from error
    raise ConfigurationError(f"There is no transport {name!r}: use {' or '.join(TransportName)}.")


def connect(
    name: TransportName | str, bootstrap_servers: str, half_timeout_ms: int, options: Mapping[str, Any]
) -> Transport:
    """Connect a producer's transport. ``options`` are further settings of its client, under that client's names.

    Raises:
        ConfigurationError: there is no such transport, its package is missing, a setting cannot be, or Kafka does not
            answer.
    """
    if type(half_timeout_ms) is not int or not LEAST_HALF_TIMEOUT_MS <= half_timeout_ms <= MOST_HALF_TIMEOUT_MS:
        raise ConfigurationError(
            f"half_timeout_ms must be a whole number of ms, from {LEAST_HALF_TIMEOUT_MS} to {MOST_HALF_TIMEOUT_MS}, "
            f"not {half_timeout_ms!r}."
        )
    return of_library(name, _kafka_python, _confluent)(bootstrap_servers, half_timeout_ms, options)


def _kafka_python() -> _Connect:
    from checkback.kafka.kafka_python.transport import KafkaPythonTransport  # noqa: PLC0415  (imported when it is needed)

    return KafkaPythonTransport


def _confluent() -> _Connect:
    from checkback.kafka.librdkafka.transport import ConfluentTransport  # noqa: PLC0415  (imported when it is needed)

    return ConfluentTransport
