"""Which Kafka client a pull consumer uses."""

from collections.abc import Mapping
from typing import Any

from checkback.consumer.pull.client import PullClient
from checkback.exceptions import ConfigurationError
from checkback.installing import extra
from checkback.kafka.connecting import TransportName


def connect(name: TransportName | str, bootstrap_servers: str, options: Mapping[str, Any]) -> PullClient:
    """Connect a client. ``options`` are further settings of it, under its own names.

    Raises:
        ConfigurationError: there is no such client, its package is missing, or Kafka does not answer.
    """
    # each imports its own client, of which one may be missing
    if name == TransportName.KAFKA_PYTHON:
        from checkback.consumer.pull.kafka_python import KafkaPythonPull  # noqa: PLC0415  (imported when it is needed)

        return KafkaPythonPull(bootstrap_servers, options)
    if name == TransportName.CONFLUENT:
        try:
            from checkback.consumer.pull.confluent import ConfluentPull  # noqa: PLC0415  (imported when it is needed)
        except ImportError as error:
            raise ConfigurationError(f"The transport confluent-kafka needs: {extra('fast')}.") from error
        return ConfluentPull(bootstrap_servers, options)
    raise ConfigurationError(f"There is no transport {name!r}: use {' or '.join(TransportName)}.")
