"""A connection that fails during a store makes a member outdated: on librdkafka's mock of a cluster."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from time import monotonic
from unittest.mock import patch

import pytest

from checkback.consumer.clients import group_client
from checkback.consumer.clients.base import Connection, KafkaAwayError
from checkback.consumer.clients.group_client import GroupClient
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from tests.kafka.test_spent_epochs import SECONDS, connections, cut

ORDERS = TopicPartition("orders", 0)
MOCK = {"test.mock.num.brokers": 1, "allow.auto.create.topics": True, "reconnect.backoff.ms": 10}


class Member:
    """A member of a group, and the sockets that are not its own."""

    def __init__(self) -> None:
        self.before = connections()
        self.partitions = set[TopicPartition]()
        with patch.object(group_client, "make_client", lambda kind, of_client: kind(dict(of_client))):
            self.client = GroupClient(Connection("mock", "points", "member", MOCK))
        self.client._consumer.list_topics(ORDERS.topic)  # the mock creates it
        self.client.join([ORDERS.topic], self)
        self.poll_until(lambda: ORDERS in self.partitions)

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions.update(partitions)

    def leaving(self, _partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Stored]:
        return {}

    def left(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions.difference_update(partitions)

    lost = left

    def poll_until(self, holds: Callable[[], bool]) -> None:
        deadline = monotonic() + SECONDS
        while not holds():
            assert monotonic() < deadline
            self.client.poll(0.01)

    def store(self) -> None:
        """Store an offset, patiently: the coordinator may be away for a moment."""
        deadline = monotonic() + SECONDS
        while monotonic() < deadline:
            with suppress(KafkaAwayError):
                self.client.store({ORDERS: Stored(1)})
                return
            self.client.poll(0.01)
        pytest.fail("No store succeeded.")

    def cut(self) -> None:
        assert cut(self.before) > 0


@pytest.fixture
def member() -> Iterator[Member]:
    member = Member()
    yield member
    member.client.close()


def test_a_store_is_settled_by_the_next_poll(member: Member) -> None:
    member.store()
    assert not member.client.settled
    member.client.poll(0.01)
    assert member.client.settled
    assert not member.client.outdated


def test_a_connection_lost_during_a_store_makes_the_member_outdated(member: Member) -> None:
    member.cut()  # no poll before the store: the loss is noticed after it
    member.store()
    member.client.poll(0.01)
    assert member.client.outdated
    member.store()
    member.client.poll(0.01)
    assert not member.client.settled, "a later store on a good connection proves nothing"


def test_a_connection_lost_between_stores_does_no_harm(member: Member) -> None:
    member.store()
    member.client.poll(0.01)
    log = member.client._connections
    with patch.object(log, "log", wraps=log.log) as lines:
        member.cut()
        changed = "GroupCoordinator: Broker changed state UP"
        member.poll_until(lambda: any(changed in str(line) for line in lines.mock_calls))
    member.store()
    member.client.poll(0.01)
    assert member.client.settled


def test_a_member_that_joins_again_is_not_outdated(member: Member) -> None:
    member.cut()
    member.store()
    member.client.poll(0.01)
    assert member.client.outdated
    with patch.object(group_client, "make_client", lambda kind, of_client: kind(dict(of_client))):
        member.client.forget()
    assert member.client.settled
