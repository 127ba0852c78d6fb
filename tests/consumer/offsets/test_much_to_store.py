"""Offsets of so many partitions, with so much beside each, that Kafka takes them in pieces only."""

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TypeVar

import pytest

from checkback.consumer import PushConsumer, TopicPartition
from checkback.consumer.clients.base import Connection, KafkaAwayError, in_commits
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.offsets.metadata import MOST_BYTES, Stored, encode
from checkback.consumer.retry import SentBack
from checkback.operations.topics import TopicAdministration
from tests.consumer.group import group_of, options
from tests.consumer.waiting import Recording, soon
from tests.place import Place as Topics

T = TypeVar("T")
PARTITIONS = 300
LONG = encode(0, [range(at * 37 + 5, at * 37 + 20) for at in range(3_000)])


@pytest.fixture
def wide(place: Topics) -> Iterator[list[TopicPartition]]:
    """All partitions of a topic that has many."""
    name = f"{place.topics.prefix}wide"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(name, PARTITIONS)
        yield [TopicPartition(name, number) for number in range(PARTITIONS)]


def patiently(call: Callable[[], T]) -> T:
    """A call is bounded; a Kafka that has just made hundreds of partitions on a busy machine may need longer."""
    deadline = monotonic() + 120
    while True:
        try:
            return call()
        except KafkaAwayError:
            if monotonic() > deadline:
                raise


def test_pieces_have_all_and_each_is_small() -> None:
    offsets = {TopicPartition("orders", number): LONG for number in range(PARTITIONS)}
    pieces = list(in_commits(offsets))
    assert {place: stored for piece in pieces for place, stored in piece.items()} == offsets
    assert max(sum(len(stored.metadata) for stored in piece.values()) for piece in pieces) < 500_000
    assert len(pieces) == 3
    assert list(in_commits({})) == []
    assert len(list(in_commits({place: Stored(1) for place in offsets}))) == 1


def test_they_are_stored_by_a_consumer_and_in_a_transaction(place: Topics, wide: list[TopicPartition]) -> None:
    assert MOST_BYTES - 4 < len(LONG.metadata) <= MOST_BYTES
    clients = Clients()
    connection = Connection(place.bootstrap_servers, group_of(place.topics), "test", options())
    client = clients.consumer(connection)
    try:
        patiently(lambda: client.store(dict.fromkeys(wide, LONG)))
        stored = patiently(lambda: clients.stored(connection, [wide[0], wide[-1]]))
        assert stored == {wide[0]: LONG, wide[-1]: LONG}
    finally:
        client.close()
    begun = PushConsumer(
        *(place.bootstrap_servers, f"{group_of(place.topics)}-2", Recording(), wide[0].topic),
        topics=place.topics,
        kafka_options=options(),
    )
    with begun as points:
        soon(lambda: len(points.figures().partitions) == PARTITIONS + 1)
        sender = clients.sender(connection, f"{place.topics.prefix}consumer.test")
        try:
            record = SentBack(place.topics.later, None, b"x", [])
            sender.send([record], dict.fromkeys(wide, Stored(1, LONG.metadata)), points._engine._client.membership())
        finally:
            sender.close()
        in_group = Connection(place.bootstrap_servers, points.group, "test", options())
        last = patiently(lambda: clients.stored(in_group, [wide[0], wide[-1]]))
    assert last == {wide[0]: Stored(1, LONG.metadata), wide[-1]: Stored(1, LONG.metadata)}
