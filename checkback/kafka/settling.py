"""Settling a lane: what it has delivered is known then, and it will deliver no more."""

from collections.abc import Mapping
from typing import Any, Protocol

from checkback.kafka.connecting import TransportName, is_confluent
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import Topics


class Settler(Protocol):
    """Settles lanes; threads may share one."""

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

    def close(self) -> None:
        """Give up the connections. A call of :meth:`settle` that is under way fails."""


def connect_settler(
    name: TransportName | str, bootstrap_servers: str, topics: Topics, options: Mapping[str, Any]
) -> Settler:
    """Make a settler of a library. ``options``: how Kafka is reached, under that library's names; others are left out.

    Raises:
        ConfigurationError: there is no such library, or a setting cannot be.
        KafkaUnreachableError: no Kafka answers.
    """
    if is_confluent(name):
        from checkback.kafka.librdkafka.settling import ConfluentSettler  # noqa: PLC0415  (may not be installed)

        return ConfluentSettler(bootstrap_servers, topics, options)
    from checkback.kafka.kafka_python.settling import KafkaPythonSettler  # noqa: PLC0415  (only who settles needs it)

    return KafkaPythonSettler(bootstrap_servers, topics, options)
