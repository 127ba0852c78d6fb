"""Reading topics in which a record lies that kafka-python cannot decode, on a real broker."""

import time

import pytest
from kafka import KafkaConsumer, TopicPartition

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


def read_one(consumer: KafkaConsumer) -> bytes:
    """The next record's value."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for records in poll(consumer, 100).values():
            value: bytes = records[0].value
            return value
    raise AssertionError("no record came")
