"""Reading topics in which a record lies that kafka-python cannot decode, on a real broker."""

import time

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from checkback.polling import poll
from tests.fuzz.pieces import NotText
from tests.place import Place


@pytest.mark.timeout(60)
def test_a_record_that_cannot_be_decoded_is_stepped_over_again_after_going_back_to_it(place: Place) -> None:
    """A service that is given a partition goes back to what was committed, perhaps to that record."""
    topic = TopicPartition(place.topics.check, 0)
    with place.producer() as kafka:
        kafka.send(topic.topic, b"odd", None, [(NotText("name"), b"1")], 0).get(10)
        kafka.send(topic.topic, b"good", None, None, 0).get(10)
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, enable_auto_commit=False)
    try:
        consumer.assign([topic])
        for _ in range(3):
            consumer.seek(topic, 0)
            while consumer.position(topic) == 0:
                poll(consumer, 100)
        assert read_one(consumer) == b"good"
    finally:
        consumer.close()


def test_a_topic_that_grows_is_read_whole_however_short_the_polls_are(place: Place) -> None:
    """The leader's join is under way when a poll ends: kafka-python alone forgets it, and is given nothing any more."""
    consumer = KafkaConsumer(
        place.real_topic,
        bootstrap_servers=place.bootstrap_servers,
        group_id=f"{place.topics.prefix}growing",
        metadata_max_age_ms=100,
        enable_auto_commit=False,
    )
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    try:
        for partitions in range(4, 8):
            if partitions > 4:
                admin.create_partitions({place.real_topic: partitions})
            deadline = time.monotonic() + 30
            while len(consumer.assignment()) < partitions:
                assert time.monotonic() < deadline, f"{len(consumer.assignment())} of {partitions}"
                poll(consumer, 1)
    finally:
        admin.close()
        consumer.close()


def test_a_join_that_ends_between_two_polls_is_not_begun_again(place: Place) -> None:
    """kafka-python alone begins another one at each poll, and two such members never let each other finish."""
    names = {
        "bootstrap_servers": place.bootstrap_servers,
        "group_id": f"{place.topics.prefix}pausing",
        "enable_auto_commit": False,
    }
    members = [KafkaConsumer(place.real_topic, **names) for _ in range(2)]
    try:
        deadline = time.monotonic() + 30
        while not all(member.assignment() for member in members):
            assert time.monotonic() < deadline, [member.assignment() for member in members]
            for member in members:
                poll(member, 1)
            time.sleep(0.2)  # what else a consumer has to do, as on a busy machine
    finally:
        for member in members:
            member.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy"])
def test_what_is_compressed_by_something_unknown_here_is_stepped_over_at_once(
    place: Place, codec: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody may write so; without this the check service stops at it, and the job with it, after each start."""
    topic = TopicPartition(place.topics.check, 0)
    other = Producer({"bootstrap.servers": place.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
    for _ in range(3):
        other.produce(topic.topic, b"odd" * 1_000, partition=0)
    other.flush(10)
    with place.producer() as kafka:
        kafka.send(topic.topic, b"good", None, None, 0).get(10)
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, enable_auto_commit=False)
    try:
        consumer.assign([topic])
        consumer.seek(topic, 0)
        found = read_one(consumer)
        assert found in {b"good", b"odd" * 1_000}  # the latter where the library is installed
        assert len(caplog.records) <= 1
    finally:
        consumer.close()


def read_one(consumer: KafkaConsumer) -> bytes:
    """The next record's value."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for records in poll(consumer, 100).values():
            value: bytes = records[0].value
            return value
    raise AssertionError("no record came")
