"""Kafka's default is to create each topic that a client asks about: no client of Checkback allows that."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from pydantic import ValidationError

from checkback.answering.endpoint import EndpointAnnouncer
from checkback.consumer import (
    ConsumeResult,
    ConsumerSettings,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    StartAt,
)
from checkback.exceptions import ConfigurationError, WrongOptionError
from checkback.kafka import kafka_python, librdkafka
from checkback.kafka.connecting import TransportName
from checkback.kafka.librdkafka.library import AdminClient, Consumer, KafkaException, NewTopic, Producer, TopicPartition
from checkback.local import LocalKafka
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import Topics
from conf import Settings
from streaming.query import kafka_source
from tests.place import Place, wait_until

CREATES = {"allow.auto.create.topics": "true"}
ASK_SECONDS = 2.0
ASK_MS = ASK_SECONDS * 1000
"""How long a client asks about a topic. The broker creates it within milliseconds of the first request."""


@pytest.fixture
def missing(broker: LocalKafka) -> Iterator[str]:
    """A name that no topic begins with, neither before nor after the test."""
    name = f"missing{uuid.uuid4().hex[:12]}."
    yield name
    assert topics_after_another_one(broker, name) == []


def topics_after_another_one(broker: LocalKafka, prefix: str) -> list[str]:
    """The topics whose names begin so, once the broker has a topic that was created after all requests so far."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    later = f"later{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(later, 1, 1)])[later].result()
    wait_until(lambda: later in admin.list_topics(timeout=10).topics)
    found = [topic for topic in admin.list_topics(timeout=10).topics if topic.startswith(prefix)]
    for deleted in admin.delete_topics([later, *found]).values():
        deleted.result()
    return found


def test_the_broker_creates_the_topics_that_other_clients_ask_about(broker: LocalKafka) -> None:
    """The control: without this, the other tests prove nothing."""
    name = f"created{uuid.uuid4().hex[:12]}"
    AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(name, timeout=10)
    assert topics_after_another_one(broker, name) == [name]


def subscribe(client: Any, topic: str) -> None:
    client.subscribe([topic])
    client.poll(ASK_MS) if isinstance(client, KafkaConsumer) else client.poll(ASK_SECONDS)


def assign(client: KafkaConsumer, topic: str) -> None:
    client.assign([PythonPartition(topic, 0)])
    client.poll(ASK_MS)


def send(client: KafkaProducer, topic: str) -> None:
    client.send(topic, b"value", partition=0).get(ASK_SECONDS)


PYTHON: dict[str, tuple[Any, Callable[[Any, str], object]]] = {
    "partitions_for": (KafkaProducer, lambda client, topic: client.partitions_for(topic)),
    "send": (KafkaProducer, send),
    "subscribe": (KafkaConsumer, subscribe),
    "assign": (KafkaConsumer, assign),
    "partitions_for_topic": (KafkaConsumer, lambda client, topic: client.partitions_for_topic(topic)),
    "describe_topics": (KafkaAdminClient, lambda client, topic: client.describe_topics([topic])),
}


def test_kafka_python_creates_no_topic(broker: LocalKafka, missing: str) -> None:
    more: dict[Any, dict[str, Any]] = {KafkaProducer: {"max_block_ms": ASK_MS}, KafkaConsumer: {"group_id": missing}}
    for name, (kind, ask) in PYTHON.items():
        settings = {"bootstrap_servers": broker.bootstrap_servers, **more.get(kind, {})}
        with contextlib.closing(kafka_python.make_client(kind, settings)) as client, contextlib.suppress(Exception):
            ask(client, missing + name)


def produce(client: Producer, topic: str) -> None:
    client.produce(topic, b"value")
    client.flush(ASK_SECONDS)


LIBRDKAFKA: dict[str, tuple[Any, Callable[[Any, str], object]]] = {
    "produce": (Producer, produce),
    "list_topics": (Producer, lambda client, topic: client.list_topics(topic, timeout=ASK_SECONDS)),
    "subscribe": (Consumer, subscribe),
    "assign": (Consumer, lambda client, topic: client.assign([TopicPartition(topic, 0, 0)])),
    "list_topics-of-a-consumer": (Consumer, lambda client, topic: client.list_topics(topic, timeout=ASK_SECONDS)),
    "list_topics-of-an-admin": (AdminClient, lambda client, topic: client.list_topics(topic, timeout=ASK_SECONDS)),
}


def test_librdkafka_creates_no_topic(broker: LocalKafka, missing: str) -> None:
    for name, (kind, ask) in LIBRDKAFKA.items():
        settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 2}
        if kind is Consumer:
            settings["group.id"] = missing
        client = librdkafka.make_client(kind, settings)
        with contextlib.suppress(KafkaException):
            ask(client, missing + name)
        if kind is Consumer:
            client.close()


@pytest.mark.parametrize("transport", TransportName)
def test_a_producer_with_a_mistyped_prefix_fails_at_once(broker: LocalKafka, missing: str, transport: str) -> None:
    """It would report a commit of a message that no job reads."""
    with pytest.raises(ConfigurationError, match=f"{missing}half"):
        TransactionProducer(broker.bootstrap_servers, "orders", topics=Topics(missing), transport=transport)


def test_an_endpoint_with_a_mistyped_prefix_fails_at_once(broker: LocalKafka, missing: str) -> None:
    """A topic that is created this way is not compacted: it would forget the endpoint."""
    with pytest.raises(ConfigurationError, match=f"Kafka has no topic {missing}producers"):
        EndpointAnnouncer(broker.bootstrap_servers, "orders", "http://127.0.0.1:1/", topics=Topics(missing))


def test_a_consumer_waits_for_a_misspelled_topic(place: Place, missing: str) -> None:
    """It must not have one partition when an operator creates it with twelve."""
    received: list[bytes | None] = []

    def listener(message: ReceivedMessage) -> ConsumeResult:
        received.append(message.value)
        return ConsumeResult.SUCCESS

    consumer = PushConsumer(
        *(place.bootstrap_servers, f"{place.topics.prefix}points"),
        listener,
        [place.real_topic, missing],
        settings=ConsumerSettings(start_at=StartAt.FIRST),
        topics=place.topics,
    )
    with consumer, contextlib.closing(place.producer()) as producer:
        producer.send(place.real_topic, b"value")
        wait_until(lambda: received == [b"value"], "the message, which proves that the member has its partitions,")


def test_pulling_from_a_missing_topic_creates_none(broker: LocalKafka, missing: str) -> None:
    with PullConsumer(broker.bootstrap_servers) as consumer:
        assert list(consumer.partitions(missing)) == []
        assert consumer.pull(missing, 0, 0).status is PullStatus.NO_MATCHED_LOGIC_QUEUE


def test_no_option_brings_it_back(broker: LocalKafka) -> None:
    """Of a message in a topic that was created this way, a producer reports a commit, and no job reads it."""
    servers = broker.bootstrap_servers
    with pytest.raises(WrongOptionError, match="allow_auto_create_topics"):
        kafka_python.make_client(KafkaProducer, {"bootstrap_servers": servers}, {"allow_auto_create_topics": True})
    with pytest.raises(WrongOptionError, match=r"allow\.auto\.create\.topics"):
        librdkafka.make_client(Producer, {"bootstrap.servers": servers, "allow.auto.create.topics": "true"})
    for options in ({"source_options": CREATES}, {"sink_options": CREATES}):
        with pytest.raises(ValidationError, match=r"must not set allow\.auto\.create\.topics"):
            Settings.model_validate({"kafka": options})
    assert kafka_source(Settings())["kafka.allow.auto.create.topics"] == "false"
