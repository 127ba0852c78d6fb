"""Reading topics in which anything lies, on a real broker."""

import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition, codec
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from checkback.exceptions import InstallationError
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.kafka_python.repairs import begin_anew_when_lost
from tests.fuzz.pieces import NotText
from tests.place import Place, wait_until


def test_a_record_with_an_odd_name_is_given_again_after_going_back_to_it(place: Place) -> None:
    """A service that is given a partition goes back to what was committed, perhaps to that record."""
    topic = TopicPartition(place.topics.check, 0)
    with place.producer() as kafka:
        kafka.send(topic.topic, b"odd", None, [(NotText("name"), b"1")], 0).get(120)
        kafka.send(topic.topic, b"good", None, None, 0).get(120)
    with reading(place) as consumer:
        for _ in range(3):
            consumer.seek(topic, 0)
            assert read_some(consumer, 2) == [b"odd", b"good"]


def test_a_topic_that_grows_is_read_whole_however_short_the_polls_are(place: Place) -> None:
    """The leader's join is under way when a poll ends: kafka-python alone forgets it, and is given nothing any more."""
    consumer = KafkaConsumer(
        place.real_topic,
        bootstrap_servers=place.bootstrap_servers,
        group_id=f"{place.topics.prefix}growing",
        metadata_max_age_ms=100,
        enable_auto_commit=False,
    )
    with closing(consumer), closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        for partitions in range(4, 8):
            if partitions > 4:
                admin.create_partitions({place.real_topic: partitions})
            deadline = time.monotonic() + 30
            while len(consumer.assignment()) < partitions:
                assert time.monotonic() < deadline, f"{len(consumer.assignment())} of {partitions}"
                poll(consumer, 1)


def test_a_join_that_ends_between_two_polls_is_not_begun_again(place: Place) -> None:
    """kafka-python alone begins another one at each poll, and two such members never let each other finish."""
    names = {"bootstrap_servers": place.bootstrap_servers, "group_id": f"{place.topics.prefix}pausing"}
    members = [KafkaConsumer(place.real_topic, enable_auto_commit=False, **names) for _ in range(2)]
    with closing(members[0]), closing(members[1]):
        deadline = time.monotonic() + 30
        while not all(member.assignment() for member in members):
            assert time.monotonic() < deadline, [member.assignment() for member in members]
            for member in members:
                poll(member, 1)
            time.sleep(0.2)  # what else a consumer has to do, as on a busy machine


class Told(AsyncConsumerRebalanceListener):
    """What a consumer has said of its partitions, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[str, set[int]]] = []

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.said.append(("assigned", {one.partition for one in assigned}))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.said.append(("revoked", {one.partition for one in revoked}))

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.said.append(("lost", {one.partition for one in lost}))


def test_who_hears_in_a_join_that_nobody_knows_it_has_lost_all_it_had(place: Place) -> None:
    """As a process that was suspended for longer than its session, and finds that the others are sharing out again."""
    consumer: Any = KafkaConsumer(
        bootstrap_servers=place.bootstrap_servers,
        group_id=f"{place.topics.prefix}suspended",
        session_timeout_ms=6_000,  # for which the others wait for the lost one
        enable_auto_commit=False,
        partition_assignment_strategy=[CooperativeStickyAssignor],
    )
    begin_anew_when_lost(consumer)
    told, everything = Told(), ("assigned", {0, 1, 2, 3})
    with closing(consumer):
        consumer.subscribe([place.real_topic], listener=told)
        wait_until(lambda: poll(consumer, 100) == {} and told.said == [everything])
        coordinator = consumer._coordinator
        coordinator._generation.member_id = "nobody"
        coordinator.request_rejoin()
        wait_until(lambda: poll(consumer, 100) == {} and len(told.said) == 3)
        assert told.said == [everything, ("lost", {0, 1, 2, 3}), everything]
        assert consumer.group_metadata().member_id != "nobody"


def test_what_is_compressed_is_read(place: Place) -> None:
    """The libraries come with the package."""
    for packed in ("gzip", "lz4", "zstd", "snappy"):
        write_compressed(place, packed)
    with reading(place) as consumer:
        assert read_some(consumer, 16) == [*[b"packed" * 1_000] * 3, b"good"] * 4


def test_without_its_library_it_is_not_passed_over_by_anybody(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a group, not to the end of a topic, and not when the partition is paused between."""
    write_compressed(place, "zstd")
    monkeypatch.setattr(codec, "zstd", None)
    said = r"check-0 are compressed with zstd, and this Python has no library for that: pip install zstandard\."
    with pytest.raises(InstallationError, match=said):
        place.read(place.topics.check)
    topic = TopicPartition(place.topics.check, 0)
    with reading(place) as consumer:
        for _ in range(3):
            with pytest.raises(InstallationError, match=said):
                read_some(consumer, 1)
            consumer.pause(topic)
            poll(consumer, 10)
            consumer.resume(topic)
        assert consumer.position(topic) == 0


@contextmanager
def reading(place: Place) -> Iterator[KafkaConsumer]:
    """A consumer at the beginning of a partition of ``cb.check``, in no group."""
    topic = TopicPartition(place.topics.check, 0)
    with closing(KafkaConsumer(bootstrap_servers=place.bootstrap_servers, enable_auto_commit=False)) as consumer:
        consumer.assign([topic])
        consumer.seek(topic, 0)
        yield consumer


def write_compressed(place: Place, packed: str) -> None:
    """Three records in a batch, and one behind it that is not compressed."""
    other = Producer({"bootstrap.servers": place.bootstrap_servers, "compression.type": packed, "linger.ms": 50})
    for _ in range(3):
        other.produce(place.topics.check, b"packed" * 1_000, partition=0)
    assert other.flush(120) == 0
    with place.producer() as kafka:
        kafka.send(place.topics.check, b"good", None, None, 0).get(120)


def read_some(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """The values of so many records."""
    deadline = time.monotonic() + 30
    found: list[bytes] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        for records in poll(consumer, 100).values():
            found += [record.value for record in records]
    return found
