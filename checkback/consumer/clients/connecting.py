"""Which Kafka client a consumer uses."""

from checkback.consumer.clients.base import Clients
from checkback.consumer.clients.kafka_python import KafkaPythonClients
from checkback.kafka.connecting import TransportName, is_confluent


def clients_of(name: TransportName | Clients | str) -> Clients:
    """The clients of a library; or those given.

    Raises:
        ConfigurationError: there is no such library, or it is not installed.
    """
    if not isinstance(name, str):
        return name
    if is_confluent(name):
        from checkback.consumer.clients.confluent import ConfluentClients  # noqa: PLC0415  (may not be installed)

        return ConfluentClients()
    return KafkaPythonClients()
