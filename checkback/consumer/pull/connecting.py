"""Which Kafka client a pull consumer uses."""

from collections.abc import Mapping
from typing import Any

from checkback.consumer.pull.client import PullClient
from checkback.consumer.pull.kafka_python import KafkaPythonPull
from checkback.kafka.connecting import TransportName, is_confluent


def connect(name: TransportName | str, bootstrap_servers: str, options: Mapping[str, Any]) -> PullClient:
    """Connect a client. ``options`` are further settings of it, under its own names.

    Raises:
        ConfigurationError: there is no such client, its package is missing, or Kafka does not answer.
    """
    if is_confluent(name):
        from checkback.consumer.pull.confluent import ConfluentPull  # noqa: PLC0415  (may not be installed)

        return ConfluentPull(bootstrap_servers, options)
    return KafkaPythonPull(bootstrap_servers, options)
