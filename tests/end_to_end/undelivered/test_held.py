"""The whole job with topics that are made late, grown late, or put right by an operator: each message once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, NewPartitions
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from checkback import Message, TransactionOptions, TransactionProducer
from checkback.exceptions import OperatorError
from checkback.operations.parked import ParkedMessage, ParkedMessages
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Action
from checkback_cli import app
from tests.end_to_end.job import running
from tests.end_to_end.job_process import Job
from tests.place import Place, wait_until


def ids(place: Place, topic: str) -> Counter[bytes]:
    return Counter(dict(record.headers)["cb-id"] for record in place.read(topic))


def create(place: Place, topic: str, **configuration: str) -> None:
    with TopicAdministration(place.bootstrap_servers) as administration:
        configs = {name.replace("_", "."): value for name, value in configuration.items()}
        administration.create_one(topic, 1, 1, configs)
        wait_until(lambda: topic in administration.partitions((topic,)))


def held(place: Place) -> int:
    """Half messages that the job has written."""
    return sum("cb-held" in dict(record.headers) for record in place.read(place.topics.half))


def test_topics_made_and_grown_late_get_their_messages_once_through_a_crash(place: Place) -> None:
    late = f"{place.topics.prefix}late"
    job = Job(place)
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        lone = [producer.prepare(Message(late, b"%d" % number, b"k%d" % number)) for number in range(20)]
        beyond = [producer.prepare(Message(place.real_topic, b"%d" % number, partition=5)) for number in range(5)]
        several = (
            producer.begin()
            .add(Message(late, b"a"))
            .add(Message(place.real_topic, b"b"))
            .add(Message(late, b"c"))
            .prepare()
        )
        others = [producer.prepare(Message(place.real_topic, b"%d" % number)) for number in range(20)]
        for message in (*lone, *beyond, several, *others):
            producer.commit(message)
        producer.flush()
    at_once = {*(message.transaction_id.encode() for message in others), f"{several.transaction_id}#2".encode()}
    try:
        job.start()
        wait_until(lambda: ids(place, place.real_topic).keys() == at_once, "the delivery of the others")
        wait_until(lambda: held(place) >= 27, "the half messages of those that are held")
        job.kill()  # Kafka has that batch, the checkpoint may not
        create(place, late)
        admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
        admin.create_partitions({place.real_topic: NewPartitions(6)})
        admin.close()
        job.start()
        wait_until(lambda: ids(place, late).total() == 22, "the delivery to the topic made late")
        wait_until(lambda: ids(place, place.real_topic).total() == 26, "the delivery to the new partition")
    finally:
        job.kill()
    numbered = {f"{several.transaction_id}#{number}".encode() for number in (1, 3)}
    assert ids(place, late) == Counter({*(message.transaction_id.encode() for message in lone), *numbered})
    grown = {message.transaction_id.encode() for message in beyond}
    assert ids(place, place.real_topic) == Counter(at_once | grown)
    assert {record.partition for record in place.read(place.real_topic) if dict(record.headers)["cb-id"] in grown} == {
        5
    }


DECIDED = ("--yes", "--why", "by hand")


@pytest.fixture
def command(place: Place, tmp_path: Path) -> Any:
    file = tmp_path / "mine.toml"
    kafka = f'[kafka]\nbootstrap_servers = "{place.bootstrap_servers}"\ntopic_prefix = "{place.topics.prefix}"\n'
    file.write_text(kafka)

    def invoke(*arguments: str) -> Result:
        return CliRunner(env={"COLUMNS": "400"}).invoke(app, [*arguments, "--config", str(file)])

    return invoke


def waiting(place: Place) -> list[ParkedMessage]:
    with ParkedMessages(place.bootstrap_servers, place.topics) as parked:
        return parked.read()


def test_an_operator_has_an_undeliverable_message_delivered_once_however_often_it_is_asked_for(
    place: Place, spark: SparkSession, command: Any
) -> None:
    narrow = f"{place.topics.prefix}narrow"
    create(place, narrow, max_message_bytes="1000")
    with (
        running(place, spark) as counts,
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
    ):
        message = producer.prepare(Message(narrow, b"x" * 2_000, b"key", headers=[("h", b"1")]))
        producer.commit(message)
        undecided = producer.prepare(Message(place.real_topic, b"v"), options=TransactionOptions(check_max=0))
        wait_until(lambda: len(waiting(place)) == 2, "the parked messages")
        refused = command("commit", message.transaction_id, *DECIDED)
        assert isinstance(refused.exception, OperatorError)
        assert "not deliverable to" in str(refused.exception)
        assert "try redeliver." in str(refused.exception)
        assert "try commit or resume or rollback." in str(
            command("redeliver", undecided.transaction_id, *DECIDED).exception
        )
        admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
        admin.alter_configs([ConfigResource("TOPIC", narrow, {"max.message.bytes": "5000"})])
        admin.close()
        listed = waiting(place)

        def redeliver(_: int) -> None:
            with ParkedMessages(place.bootstrap_servers, place.topics) as parked:
                parked.end([one for one in listed if not one.undecided], Action.REDELIVER)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(redeliver, range(4)))
        wait_until(lambda: counts["redelivered"] == 1 and counts["duplicate"] == 3, "one redelivery")
        (record,) = place.read(narrow)
        assert (record.key, record.value) == (b"key", b"x" * 2_000)
        assert record.headers == [("cb-id", message.transaction_id.encode()), ("h", b"1")]
        assert [one.transaction_id for one in waiting(place)] == [undecided.transaction_id]
        assert command("rollback", "--all", "--group", "shop", *DECIDED).exit_code == 0
        wait_until(lambda: waiting(place) == [], "an empty list")
        shown = command("parked", "list", "--ended").output
        assert "rolled back" in shown
        assert "committed" in shown
    assert "Neither in doubt nor parked" in str(command("redeliver", message.transaction_id, *DECIDED).exception)
