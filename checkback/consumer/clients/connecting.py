"""Which Kafka client a consumer uses."""

from checkback.consumer.clients.base import Clients
from checkback.exceptions import ConfigurationError
from checkback.installing import extra
from checkback.kafka.connecting import TransportName


def clients_of(name: TransportName | Clients | str) -> Clients:
    """The clients of a library; or those given.

    Raises:
        ConfigurationError: there is no such library, or it is not installed.
    """
    if not isinstance(name, str):
        return name
    # each imports its own client, of which one may be missing
    if name == TransportName.KAFKA_PYTHON:
        from checkback.consumer.clients.kafka_python import KafkaPythonClients  # noqa: PLC0415  (imported when needed)

        return KafkaPythonClients()
    if name == TransportName.CONFLUENT:
        try:
            from checkback.consumer.clients.confluent import ConfluentClients  # noqa: PLC0415  (imported when needed)
        except ImportError as error:
            raise ConfigurationError(f"The transport confluent-kafka needs: {extra('fast')}.") from error
        return ConfluentClients()
    raise ConfigurationError(f"There is no transport {name!r}: use {' or '.join(TransportName)}.")
