"""The settings that every client of kafka-python has."""

from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from checkback.kafka.kafka_python import make_client
from checkback.local import LocalKafka


@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
def test_after_an_outage_nobody_waits_for_half_a_minute(broker: LocalKafka, kind: Any) -> None:
    with closing(make_client(kind, {"bootstrap_servers": broker.bootstrap_servers})) as client:
        assert client.config["reconnect_backoff_max_ms"] == 1_000
