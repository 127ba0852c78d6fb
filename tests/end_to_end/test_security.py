"""The job on a Kafka with TLS and SASL, set up once for all three clients; with wrong credentials it says so."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.exceptions import CheckbackError
from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Topics
from conf import Settings
from streaming import TransactionJob
from tests.place import wait_until
from tests.safe_kafka import certificates

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_PASSWORD = 'job\'s "own" secret'  # noqa: S105  (of this test's broker)


@dataclass(frozen=True)
class SafeKafka:
    """A broker with a listener for passwords and one for certificates."""

    folder: Path
    passwords: int
    certificates: int

    def settings(self, **kafka: Any) -> Settings:
        security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "job", "password": _PASSWORD}
        security |= {"ca": str(self.folder / "authority.pem")}
        given = {"bootstrap_servers": f"127.0.0.1:{self.passwords}", "security": security, **kafka}
        job = {"checkpoint": str(self.folder / "checkpoint"), "state_partitions": 2}
        return Settings.model_validate({"kafka": given, "job": job, "checks": {"in_job": True}})


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SafeKafka]:
    folder = tmp_path_factory.mktemp("safe")
    tls = certificates(folder, "client")
    ports = (free_port(), free_port())
    kafka = LocalKafka(folder / "kafka", port=ports[0])
    kafka._properties.update(
        {
            "listeners": f"SASL_SSL://127.0.0.1:{ports[0]},SSL://127.0.0.1:{ports[1]},"
            f"CONTROLLER://127.0.0.1:{kafka.controller_port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{_LOGIN} user_job="job\'s \\\\"own\\\\" secret";',
            **tls,
            "listener.name.ssl.ssl.client.auth": "required",
        }
    )
    with kafka:
        yield SafeKafka(folder, *ports)


def test_a_message_goes_all_the_way(safe: SafeKafka, spark: SparkSession) -> None:
    settings = safe.settings()
    kafka = settings.kafka
    with TopicAdministration(kafka.bootstrap_servers, kafka.python_client) as administration:
        times = settings.transactions
        administration.create(Topics(), partitions=2, progress_partitions=2, replication=1, times=times)
        administration.create_one("orders", 2)
        assert administration.wait_for(["orders"]) == []
    for transport, options in (("kafka-python", kafka.python_client), ("confluent-kafka", kafka.sink_client)):
        with TransactionProducer(
            kafka.bootstrap_servers, "shop", transport=transport, kafka_options=options, missing_topic="refuse"
        ) as producer:
            producer.send(Message("orders", transport.encode()))
    consumer = reading_consumer(kafka.bootstrap_servers, options=kafka.python_client)
    with TransactionJob(settings, spark=spark) as job:
        found: set[bytes] = set()

        def delivered() -> bool:
            job.wait(1)
            found.update(record.value for record in records_to_end(consumer, "orders"))
            return len(found) == 2

        wait_until(delivered, "both messages")
    consumer.close()
    assert found == {b"kafka-python", b"confluent-kafka"}


def test_certificates_are_shown_by_all_clients(safe: SafeKafka, spark: SparkSession) -> None:
    folder = safe.folder
    shown = {"certificate": str(folder / "client.pem"), "key": str(folder / "client.key")}
    security = {"protocol": "SSL", "ca": str(folder / "authority.pem"), **shown}
    kafka = safe.settings(bootstrap_servers=f"127.0.0.1:{safe.certificates}", security=security).kafka
    with TopicAdministration(kafka.bootstrap_servers, kafka.python_client) as administration:
        administration.create_one("shown", 1)
        assert administration.wait_for(["shown"]) == []
    listed = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **kafka.sink_client}).list_topics(timeout=20)
    assert "shown" in listed.topics
    options = {f"kafka.{name}": value for name, value in kafka.source_client.items()}
    read = spark.read.format("kafka").options(**options).option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    assert read.option("subscribe", "shown").load().count() == 0


def test_a_wrong_password_is_one_sentence(safe: SafeKafka, spark: SparkSession) -> None:
    good = safe.settings().kafka.security.model_dump()
    settings = safe.settings(security={**good, "password": "another", "key_password": ""})
    with pytest.raises(CheckbackError, match=r"kafka\.security") as refused, TransactionJob(settings, spark=spark):
        pass
    assert "another" not in str(refused.value)
