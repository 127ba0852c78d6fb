"""Three brokers: what ``topics create`` makes there, and what goes on while some of them are away."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import AdminClient, KafkaException, Producer
from checkback.kafka.librdkafka.topics import described
from checkback.local import LocalKafka, LocalKafkaCluster
from checkback.operations.topic_facts import TopicFacts, facts_of
from checkback.operations.topics import admin_client, usual_replication
from checkback.wire.protocol import Topics
from conf import Settings
from streaming.fairness.held_back import read_ends
from streaming.query import kafka_records
from tests.place import wait_until

REAL = "orders"


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafkaCluster]:
    with LocalKafkaCluster() as started:
        create = ["topics", "create", REAL, "--partitions", "3", "--bootstrap-server", started.bootstrap_servers]
        subprocess.run([sys.executable, "-m", "checkback", *create], check=True)
        yield started


def facts(kafka: LocalKafkaCluster, *names: str) -> dict[str, TopicFacts]:
    admin = admin_client(kafka.bootstrap_servers)
    try:
        return facts_of(admin, names)
    finally:
        admin.close()


def confirmed(kafka: LocalKafkaCluster, seconds: float) -> bool:
    """Whether Kafka confirms a record on each partition."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.timeout.ms": int(seconds * 1000)})
    try:
        for partition in range(3):
            producer.produce(REAL, b"value", partition=partition, on_delivery=lambda error, _: failed.append(error))
        # a KafkaError is not compared: with what is not a number, that leaves an error for whoever calls C next
        return not producer.flush(seconds + 5) and len(failed) == 3 and not any(failed)
    except KafkaException:
        return False


def test_topics_get_three_replicas_of_which_two_confirm(kafka: LocalKafkaCluster) -> None:
    found = facts(kafka, *Topics().all(), REAL)
    assert {one.replication for one in found.values()} == {3}
    assert {one.configuration["min.insync.replicas"] for one in found.values()} == {"2"}


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 1), (3, 3), (9, 3)])
def test_topics_get_three_replicas_only_where_there_are_three_brokers(brokers: int, replicas: int) -> None:
    assert usual_replication(brokers) == replicas


def test_one_may_be_killed_and_two_may_not_until_one_is_back(kafka: LocalKafkaCluster) -> None:
    first, second, _ = kafka.brokers
    known, looking = ([AdminClient({"bootstrap.servers": kafka.bootstrap_servers}) for _ in range(9)] for _ in "ab")
    assert all(described(one, [REAL]) for one in known)  # each takes another broker for the controller
    assert all(read_ends(one, [REAL]) for one in looking)
    first.kill()
    assert confirmed(kafka, 60)
    with ThreadPoolExecutor(len(known)) as pool:
        assert all(pool.map(lambda one: described(one, [REAL])[REAL].partitions == 3, known))
        assert all(pool.map(lambda one: len(read_ends(one, [REAL])) == 3, looking))
    first.start()
    wait_until(lambda: not facts(kafka, REAL)[REAL].short, "all replicas are in sync")
    first.kill()
    second.kill()
    assert not confirmed(kafka, 5)
    second.start()
    assert confirmed(kafka, 60)
    kafka.start()


def test_waiting_for_a_lost_broker_takes_no_cpu_and_sparks_source_hears_who_leads_now(
    kafka: LocalKafkaCluster, spark: SparkSession, tmp_path: Path
) -> None:
    kafka.start()
    half = Topics().half
    wait_until(lambda: not facts(kafka, half)[half].short, "all replicas are in sync")
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": kafka.bootstrap_servers}})
    read: list[int] = []
    stream = kafka_records(spark, settings).writeStream.option("checkpointLocation", str(tmp_path))
    query = stream.foreachBatch(lambda frame, _: read.append(frame.count())).start()
    try:
        write(kafka, half)
        wait_until(lambda: sum(read) == 1, "Spark reads")
        admins = [make_client(AdminClient, {"bootstrap.servers": kafka.bootstrap_servers}) for _ in range(3)]
        assert all(read_ends(one, [half]) for one in admins)
        leader_of(kafka, half, 0).kill()
        lost, used = time.monotonic(), time.process_time()
        for admin in admins:
            with contextlib.suppress(KafkaException):
                read_ends(admin, [half])
        assert time.process_time() - used < max(2.0, 0.3 * (time.monotonic() - lost))
        write(kafka, half)
        wait_until(lambda: sum(read) == 2, "Spark goes on reading")
        assert time.monotonic() - lost < 45  # of itself Java's client takes 60
    finally:
        query.stop()


def write(kafka: LocalKafkaCluster, topic: str) -> None:
    """A record on partition 0."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"value", partition=0)
    assert not producer.flush(60)


def leader_of(kafka: LocalKafkaCluster, topic: str, partition: int) -> LocalKafka:
    known = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(topic, timeout=10)
    port = known.brokers[known.topics[topic].partitions[partition].leader].port
    return next(one for one in kafka.brokers if one.bootstrap_servers.endswith(f":{port}"))
