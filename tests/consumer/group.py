"""Consumers of tests on a real Kafka."""

from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from checkback.consumer import ConsumerSettings, Listener, PushConsumer, StartAt
from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored, decode, encode
from checkback.wire.protocol import Topics as OwnTopics
from tests.place import Place as Topics

_SESSION_MS = 30_000  # none is missed on a busy machine; who dies has a name, and is replaced at once


def group_of(topics: OwnTopics) -> str:
    """Each test has a group of its own: nobody waits for the dead of another one."""
    return f"points-{topics.prefix.strip('.')}"


def options(**more: Any) -> dict[str, Any]:
    """``more``: with underscores for full stops."""
    return {name.replace("_", "."): value for name, value in {"session_timeout_ms": _SESSION_MS, **more}.items()}


def member(
    place: Topics,
    listener: Listener,
    wanted: dict[str, str] | None = None,
    name: str | None = None,
    group: str | None = None,
    **settings: Any,
) -> PushConsumer:
    """A consumer of the test's group, or of another, which reads the test's topic from its first message.

    With a name it takes the place of a member of that name at once, whatever has become of it.
    """
    chosen = {"start_at": StartAt.FIRST, "concurrency": 4, "store_interval": 0.2, "hear_resets": False, **settings}
    return PushConsumer(
        *(place.bootstrap_servers, group or group_of(place.topics), listener, wanted or [place.real_topic]),
        settings=ConsumerSettings(**chosen),
        topics=place.topics,
        kafka_options=options(**({"group_instance_id": name} if name else {})),
    )


def stored_by(place: Topics, group: str | None = None) -> dict[TopicPartition, Stored]:
    """What the test's group, or another, has stored for the test's topic."""
    connection = Connection(place.bootstrap_servers, group or group_of(place.topics), "test")
    places = [TopicPartition(place.real_topic, number) for number in range(4)]
    return Clients().stored(connection, places)


def ends_of(place: Topics) -> dict[TopicPartition, int]:
    """The ends of the test's topic."""
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers)
    try:
        return {
            TopicPartition(*one): end
            for one, end in consumer.end_offsets(
                [KafkaPartition(place.real_topic, number) for number in range(4)]
            ).items()
        }
    finally:
        consumer.close()


def write(place: Topics, *values: bytes) -> None:
    """Messages to the test's topic, over all its partitions."""
    producer = place.producer()
    for number, value in enumerate(values):
        producer.send(place.real_topic, value, headers=[("cb-id", value)], partition=number % 4)
    producer.flush()
    producer.close()


def without_topic(stored: Stored | None) -> Stored | None:
    """As it would be stored where brokers give topics no ids."""
    if stored is None:
        return None
    note = decode(stored)
    return encode(stored.offset, note.done, note.endings, kept=note.kept._replace(topic=""))
