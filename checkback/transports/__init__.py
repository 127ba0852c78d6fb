"""How records get to Kafka: kafka-python, which is pure Python and the default, or confluent-kafka, which is faster."""

from checkback.transports.base import Lost, OutgoingRecord, Transport
from checkback.transports.connecting import TransportName, connect

__all__ = ["Lost", "OutgoingRecord", "Transport", "TransportName", "connect"]
