"""Of confluent-kafka, which is librdkafka's client."""

from checkback.kafka.librdkafka.making import FIXED, connected, make_client, wrong_settings

__all__ = ["FIXED", "connected", "make_client", "wrong_settings"]
