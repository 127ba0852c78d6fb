"""Which Kafka client a pull consumer uses."""

from collections.abc import Callable, Mapping
from typing import Any

from checkback.consumer.pull.client import PullClient
from checkback.kafka.connecting import TransportName, of_library

_Connect = Callable[[str, Mapping[str, Any]], PullClient]


def connect(name: TransportName | str, bootstrap_servers: str, options: Mapping[str, Any]) -> PullClient:
    """Connect a client. ``options`` are further settings of it, under its own names.

    Raises:
        ConfigurationError: there is no such client, its package is missing, or Kafka does not answer.
    """
    return of_library(name, _kafka_python, _confluent)(bootstrap_servers, options)


def _kafka_python() -> _Connect:
    from checkback.consumer.pull.kafka_python import KafkaPythonPull  # noqa: PLC0415  (imported when it is needed)

    return KafkaPythonPull


def _confluent() -> _Connect:
    from checkback.consumer.pull.confluent import ConfluentPull  # noqa: PLC0415  (imported when it is needed)

    return ConfluentPull
