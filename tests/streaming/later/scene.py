"""A forwarder on a real Kafka, and what it moves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any

import pytest
from confluent_kafka import Producer

from checkback.exceptions import CheckbackError
from checkback.operations.topics import TopicAdministration
from streaming.brokers.client import SinkSettings
from streaming.later.forwarding import Forwarder
from tests.place import Place, configure_topic, wait_until

Headers = list[tuple[str, bytes | None]]


def retry_of(place: Place, name: str = "1", group: str = "points") -> Headers:
    """What a consumer group writes that wants a message again."""
    topic = place.topics.retry(group).encode()
    return [("cb-id", name.encode()), ("cb-group", group.encode()), ("cb-topic", topic), ("cb-action", b"commit")]


def headers_of(place: Place) -> Headers:
    """Likewise, with an application's own."""
    return [*retry_of(place), ("a", None), ("a", b"\xff"), ("", b"")]


class Remembering:
    """A checkpoint, as far as the forwarder needs it."""

    def __init__(self) -> None:
        self.topics = set[str]()

    def remembers_later(self, topic_id: str) -> bool:
        return topic_id in self.topics

    def remember_later(self, topic_id: str) -> None:
        self.topics.add(topic_id)


def no_other() -> None:
    """Nobody has taken the topics over."""


def now_ms() -> int:
    """Kafka's clock is this machine's."""
    return time_ns() // 1_000_000


def settings(place: Place) -> SinkSettings:
    return SinkSettings(place.bootstrap_servers, place.topics, 60_000)


def forwarder_of(
    place: Place, memory: Remembering | None = None, refuse_another: Callable[[], None] = no_other
) -> Forwarder:
    return Forwarder(settings(place), memory or Remembering(), refuse_another, now_ms)


@contextmanager
def moving(place: Place, memory: Remembering | None = None) -> Iterator[Forwarder]:
    made = forwarder_of(place, memory)
    made.start()
    yield made
    made.stop()
    made.raise_if_dead()


def transactional(place: Place, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(20)
    return producer


def write(place: Place, *values: bytes | None, headers: Any = None, partition: int = 1) -> None:
    headers = headers_of(place) if headers is None else headers
    producer = transactional(place, f"{place.topics.prefix}{threading.get_ident()}")
    producer.begin_transaction()
    for value in values:
        producer.produce(place.topics.later, value, b"key", partition, headers=headers)
    producer.commit_transaction(20)


def halves(place: Place) -> list[bytes | None]:
    return [record.value for record in place.read(place.topics.half)]


def limit(place: Place, topic: str, size: int) -> None:
    configure_topic(place.bootstrap_servers, topic, max_message_bytes=str(size))


def dead_letters(place: Place, partitions: int = 1) -> str:
    """Make the topic of the group's dead letters; its name."""
    dead = place.topics.dead("points")
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(dead, partitions)
        administration.wait_for([dead])
    return dead


def ends(forwarder: Forwarder) -> bool:
    return not forwarder._thread.is_alive()


def ended_by(forwarder: Forwarder) -> CheckbackError:
    wait_until(lambda: ends(forwarder), what="its end")
    with pytest.raises(CheckbackError) as caught:
        forwarder.raise_if_dead()
    return caught.value
