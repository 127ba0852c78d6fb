"""A member that closes leaves its group: otherwise the group waits for it until its session times out."""

from collections.abc import Collection, Mapping

from checkback.consumer.clients.base import Connection
from checkback.consumer.clients.group_client import GroupClient
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.kafka.librdkafka.groups import members_of
from tests.place import Place, wait_until

ROUNDS = 40
"""Before the cure, 2 of 25 and 15 of 94 members did not leave."""

LONG_SESSION = {"session.timeout.ms": 900_000, "max.poll.interval.ms": 900_000}
"""Longer than a test waits."""


class Rebalances:
    """What an engine does of them here: it begins all that it is given."""

    def __init__(self, client: GroupClient) -> None:
        self._client = client
        self.count = 0
        self.partitions = set[TopicPartition]()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.count += 1
        self.partitions.update(partitions)
        self._client.begin(dict.fromkeys(partitions, 0))

    def leaving(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Stored]:
        return {}

    def left(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions.difference_update(partitions)

    lost = left


def joined(place: Place, group: str) -> tuple[GroupClient, Rebalances]:
    client = GroupClient(Connection(place.bootstrap_servers, group, "member", LONG_SESSION))
    rebalances = Rebalances(client)
    client.join([place.real_topic], rebalances)
    return client, rebalances


def members(place: Place, group: str) -> int:
    return len(members_of(group, {"bootstrap.servers": place.bootstrap_servers, "log_level": 2}, 10))


def test_a_member_leaves_its_group_when_it_closes(place: Place) -> None:
    group = f"{place.topics.prefix}points"
    stayed = 0
    for _ in range(ROUNDS):
        client, rebalances = joined(place, group)
        wait_until(lambda: client.poll(0.1) is not None and bool(rebalances.partitions))  # noqa: B023  (called at once)
        client.close()
        assert rebalances.partitions == set()
        stayed += members(place, group)
        if stayed:
            break
    assert stayed == 0


def test_a_member_leaves_while_its_group_is_shared_out(place: Place) -> None:
    """The second member, which has no partition, and the first one, which is told to join again."""
    for polls in (0, 1, 5):
        group = f"{place.topics.prefix}points-{polls}"
        first, rebalances = joined(place, group)
        wait_until(lambda: first.poll(0.1) is not None and bool(rebalances.partitions))  # noqa: B023  (called at once)
        second, _ = joined(place, group)
        for _ in range(polls):
            second.poll(0.1)
        second.close()
        first.close()
        wait_until(lambda: members(place, group) == 0)  # noqa: B023  (called at once)
