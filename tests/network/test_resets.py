"""A request of ``checkback offsets reset`` that arrives late: it moves no offset that was stored after it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer

from checkback.consumer.listener import TopicPartition
from checkback.consumer.resetting.group_offsets import GroupOffsets
from tests.consumer.group import group_of
from tests.place import Place, wait_until
from torture.network.proxy import Api, Deed, KafkaProxy, Request, Rule


class Joining(Thread):
    """A consumer of the group."""

    def __init__(self, place: Place, **options: Any) -> None:
        super().__init__()
        name, servers = group_of(place.topics), place.bootstrap_servers
        self._topic = place.real_topic
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": name, "enable.auto.commit": False, **options}
        )
        self._ending = Event()
        self.partitions = 0
        self.errors: list[str] = []

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._ending.is_set():
            polled = self._consumer.poll(0.1)
            self.errors += [] if polled is None else [str(polled.error())]
            self.partitions = len(self._consumer.assignment())
        self._consumer.close()

    def end(self) -> None:
        self._ending.set()
        if self.is_alive():
            self.join()
        assert self.errors == []


@contextmanager
def joining(place: Place, **options: Any) -> Iterator[Joining]:
    """Starts when the test says so."""
    consumer = Joining(place, **options)
    try:
        yield consumer
    finally:
        consumer.end()


def test_a_late_request_does_not_undo_a_later_reset(place: Place, network: KafkaProxy) -> None:
    name, partition = group_of(place.topics), TopicPartition(place.real_topic, 0)
    with GroupOffsets(network.address, name) as group:
        assert group.set({partition: 0})
        network.add(late := Rule(Api.OFFSET_COMMIT, Deed.HOLD_AND_CUT, name.encode()))
        assert group.set({partition: 1})
        assert group.stored() == {partition: 1}
        assert group.set({partition: 2})
        network.wait(late.request.arrive())
        assert group.stored() == {partition: 2}


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "range"])
def test_a_consumer_may_join_meanwhile(place: Place, network: KafkaProxy, protocol: str) -> None:
    name, partition = group_of(place.topics), TopicPartition(place.real_topic, 0)
    with (
        GroupOffsets(network.address, name) as group,
        GroupOffsets(place.bootstrap_servers, name) as broker,
        joining(place, **{"partition.assignment.strategy": protocol}) as consumer,
    ):

        async def before(_: Request) -> None:
            consumer.start()
            await asyncio.to_thread(wait_until, lambda: len(broker.members()) == 2, "two members")

        network.add(Rule(Api.OFFSET_COMMIT, text=name.encode(), before=before))
        stored = group.set({partition: 1})
        wait_until(lambda: consumer.partitions == 4, "all partitions")
        assert broker.stored() == ({partition: 1} if stored else {})


def test_a_group_of_the_newer_protocol_is_not_joined_if_it_has_members(place: Place) -> None:
    with (
        GroupOffsets(place.bootstrap_servers, group_of(place.topics)) as group,
        joining(place, **{"group.protocol": "consumer"}) as newer,
    ):
        newer.start()
        wait_until(lambda: newer.partitions == 4, "all partitions")
        assert not group.set({TopicPartition(place.real_topic, 0): 1})
        assert newer.partitions == 4
