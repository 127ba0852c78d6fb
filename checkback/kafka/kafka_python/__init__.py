"""Of kafka-python."""

from checkback.kafka.kafka_python.making import SHARED, make_client

__all__ = ["SHARED", "make_client"]
