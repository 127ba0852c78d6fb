"""Groups of which somebody is a member who says of himself what no consumer does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from checkback.consumer.resetting.all_groups import AllGroups
from checkback.consumer.resetting.group_offsets import GroupOffsets
from tests.consumer.group import group_of
from tests.place import Place, wait_until

NONSENSE = b"x" * 100


class Said:
    """In the place of what kafka-python says of a member's partitions."""

    def encode(self, **_: Any) -> bytes:
        return NONSENSE


class Nonsense(RoundRobinPartitionAssignor):
    name = "nonsense"

    def assign(self, _: Any, members: Any) -> dict[str, Said]:
        return {member.member_id: Said() for member in members}


@contextmanager
def member_of(place: Place, group: str) -> Iterator[None]:
    """Its leader, too: brokers do not look at what that shares out."""
    consumer = KafkaConsumer(
        bootstrap_servers=place.bootstrap_servers,
        group_id=group,
        partition_assignment_strategy=[Nonsense],
        enable_auto_commit=False,
        client_id="nonsense",
    )
    consumer.subscribe([place.real_topic])
    stopping = threading.Event()

    def join() -> None:
        while not stopping.is_set():
            try:
                consumer.poll(100)
            except ValueError:
                stopping.wait(0.1)

    joining = threading.Thread(target=join)
    joining.start()
    try:
        yield
    finally:
        stopping.set()
        joining.join()
        consumer.close(autocommit=False, timeout_ms=500)


def test_nobody_hides_a_group(place: Place) -> None:
    group = group_of(place.topics)
    with member_of(place, group), AllGroups(place.bootstrap_servers) as asked:
        wait_until(lambda: [(one.name, one.members) for one in asked.known(group.__eq__)] == [(group, 1)])
        with GroupOffsets(place.bootstrap_servers, group) as one:
            assert [(member.client_id, member.partitions) for member in one.members()] == [("nonsense", frozenset())]
