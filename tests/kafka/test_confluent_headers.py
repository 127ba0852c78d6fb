"""Headers of hostile records, as confluent-kafka gives them; librdkafka's own mock of a broker stands for Kafka."""

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from checkback.kafka.librdkafka.headers import headers_of
from tests.by_hand import NOT_UTF_8, write_by_hand

TOPIC = "t"


def read_by_librdkafka(*headers: tuple[bytes, bytes | None]) -> Message:
    """The record with these headers, written and read."""
    mock = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    (broker,) = mock.list_topics(timeout=30).brokers.values()
    mock.list_topics(TOPIC, timeout=30)  # makes it
    write_by_hand((broker.host, broker.port), TOPIC, 0, (b"key", b"value", headers))
    consumer = Consumer({"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = consumer.poll(30)
    consumer.close()
    assert found is not None
    assert found.error() is None
    assert found.value() == b"value"
    return found


def test_headers_are_given_as_they_are() -> None:
    given = [("", b""), ("a", None), ("a", b"\xff"), ("\u00e4", b"1")]
    assert headers_of(read_by_librdkafka(*((name.encode(), content) for name, content in given))) == given
    assert headers_of(read_by_librdkafka()) == []


@pytest.mark.parametrize(
    "headers",
    [
        [(NOT_UTF_8, b"1")],
        [(b"cb-id", b"1"), (NOT_UTF_8, None), (b"a", b"1"), (NOT_UTF_8, b"2"), (b"\xed\xa0\x80", b"a surrogate")],
    ],
)
def test_a_name_that_is_not_utf_8_is_said_each_time_that_it_is_asked_for(
    headers: list[tuple[bytes, bytes | None]],
) -> None:
    good, message = read_by_librdkafka((b"a", b"1")), read_by_librdkafka(*headers)
    for _ in range(1_000):  # so that CPython makes the calls faster: see _headers
        assert headers_of(good)
    assert headers_of(message) is None
    assert headers_of(message) is None
    assert not message.headers()  # and nobody else's call crashes the process


def test_what_librdkafka_leaves_out() -> None:
    """As ``headers_of`` says: should it change, better can be done."""
    assert headers_of(read_by_librdkafka((b"cb-id\x00x", b"1"))) == [("cb-id", b"1")]
    assert headers_of(read_by_librdkafka(*[(b"a", b"")] * 100_001)) == []
