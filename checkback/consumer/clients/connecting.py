"""Which Kafka client a consumer uses."""

from checkback.consumer.clients.base import Clients
from checkback.kafka.connecting import TransportName, of_library


def clients_of(name: TransportName | Clients | str) -> Clients:
    """The clients of a library; or those given.

    Raises:
        ConfigurationError: there is no such library, or it is not installed.
    """
    return of_library(name, _kafka_python, _confluent) if isinstance(name, str) else name


def _kafka_python() -> Clients:
    from checkback.consumer.clients.kafka_python import KafkaPythonClients  # noqa: PLC0415  (imported when needed)

    return KafkaPythonClients()


def _confluent() -> Clients:
    from checkback.consumer.clients.confluent import ConfluentClients  # noqa: PLC0415  (imported when needed)

    return ConfluentClients()
