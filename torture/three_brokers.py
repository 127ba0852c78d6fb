"""A ground with three brokers, of which one may be away."""

from dataclasses import dataclass

from checkback.local import LocalKafkaCluster
from torture.ground import Ground


@dataclass(frozen=True, kw_only=True)
class ThreeBrokers(Ground):
    """Each topic has a replica on each broker, and two confirm; ``broker`` is the first of them."""

    kafka: LocalKafkaCluster

    @property
    def servers(self) -> str:
        """All brokers."""
        return self.kafka.bootstrap_servers

    @property
    def replication(self) -> int:
        """Of every topic."""
        return len(self.kafka.brokers)
