"""Producers look whether the topics that they send to are there."""

import logging
from collections.abc import Sequence

import pytest

from checkback import ConfigurationError, Message, MissingTopicError, TransactionProducer
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.connecting import TransportName, connect
from checkback.producing.real_topics import RealTopics
from checkback.testing import RecordingTransport
from checkback.wire.protocol import Topics
from tests.place import Place

LOST = Message("lost", b"1")


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "checkback.producing.real_topics"]


def test_a_missing_topic_is_warned_of_once_and_the_message_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingTransport(missing_topics=["lost"])
    with TransactionProducer("nowhere:1", "shop", transport=recording) as producer:
        for message in (LOST, LOST, Message("orders", b"2")):
            producer.send(message)
    assert len(recording.committed) == 3
    [said] = warnings(caplog)
    assert "no topic lost" in said
    assert "tables only" in said, "the producer does not know the job's rules"
    assert len(said.split()) <= 40


def test_each_of_several_messages_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingTransport(missing_topics=["lost"])
    with TransactionProducer("nowhere:1", "shop", transport=recording) as producer:
        producer.begin().add(Message("orders", b"1")).add(LOST).prepare()
    assert len(warnings(caplog)) == 1


def test_a_message_for_a_missing_topic_is_refused_until_the_topic_is_there() -> None:
    recording = RecordingTransport(missing_topics=["lost"])
    with TransactionProducer("nowhere:1", "shop", transport=recording, missing_topic="refuse") as producer:
        for _ in range(2):
            with pytest.raises(MissingTopicError, match="missing_topic is 'refuse': nothing was written"):
                producer.send(LOST)
        assert recording.transactions == []
        recording.missing_topics = []
        producer.send(LOST)
    assert recording.committed == [LOST]


def test_nobody_looks_when_told_not_to(caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingTransport(missing_topics=["lost"])
    with TransactionProducer("nowhere:1", "shop", transport=recording, missing_topic="ignore") as producer:
        producer.send(LOST)
    assert warnings(caplog) == []


def test_what_to_do_is_one_of_three() -> None:
    recording = RecordingTransport()
    with pytest.raises(ConfigurationError, match="'warn', 'refuse', 'ignore', not 'raise'"):
        TransactionProducer("nowhere:1", "shop", transport=recording, missing_topic="raise")


def test_a_kafka_that_does_not_say_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    def away(topics: Sequence[str]) -> list[str]:
        raise KafkaUnreachableError(f"nobody says whether {topics} are there")

    caplog.set_level(logging.WARNING)
    topics = RealTopics(away, "warn", Topics())
    topics.look(["orders"])
    topics.wait(5)
    assert warnings(caplog) == []


@pytest.mark.parametrize("name", TransportName)
def test_kafka_says_which_are_missing(name: TransportName, place: Place) -> None:
    transport = connect(name, place.bootstrap_servers, 10_000, {})
    try:
        assert transport.missing([place.real_topic, f"{place.real_topic}-not"]) == [f"{place.real_topic}-not"]
        assert transport.missing([f"{place.real_topic}-not"]) == [f"{place.real_topic}-not"]  # asking makes none
    finally:
        transport.close(5)
