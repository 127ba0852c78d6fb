"""What a client has sent again is found in Kafka, around a half message and no further."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic

from checkback.kafka.kafka_python.reading import PartitionReader
from checkback.kafka.topic_reading import reading_consumer
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, half_headers, op_headers
from gateway.checking import NAMED, Twins
from gateway.kafka.twin_halves import APART_MS, HalfIndex, TwinHalves, number_of
from tests.gateway.scene import NOW_MS
from tests.place import Place, wait_until

FIRST, SECOND = NAMED + "1" * 32, NAMED + "2" * 32


@pytest.fixture
def place(broker: LocalKafka, tmp_path: Path) -> Iterator[Place]:
    """A half and an op topic whose records have the times that they are written with."""
    topics = Topics(f"t{uuid.uuid4().hex[:12]}.")
    own = Place(broker.bootstrap_servers, topics, "orders", tmp_path)
    made(own)
    yield own
    own.delete_topics()


def made(place: Place, *, again: bool = False) -> None:
    names = [place.topics.half, place.topics.op]
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    if again:
        admin.delete_topics(names)
        wait_until(lambda: not set(names) & set(admin.list_topics()))
    configuration = {"message.timestamp.type": "CreateTime"}
    admin.create_topics([NewTopic(name, 2, 1, topic_configs=configuration) for name in names])
    admin.close()
    with TopicAdministration(place.bootstrap_servers) as administration:
        assert administration.wait_for(names) == []


def write(place: Place, *halves: tuple[str, int], partition: int = 0, group: str = "shop") -> None:
    """Half messages by id and time, in the order of their offsets."""
    producer = place.producer()
    for name, time_ms in halves:
        headers = list(half_headers(name, group, place.real_topic))
        producer.send(place.topics.half, b"v", partition=partition, headers=headers, timestamp_ms=time_ms)
    producer.close()


def decide(place: Place, name: str, half: HalfPosition, action: Action, source: Source, group: str = "shop") -> None:
    producer = place.producer()
    headers = list(op_headers(name, group, half, action, source))
    producer.send(place.topics.op, b"", partition=half.partition, headers=headers, timestamp_ms=NOW_MS)
    producer.send(place.topics.op, b"?", partition=half.partition, timestamp_ms=NOW_MS)  # hostile: not an op
    producer.close()


@contextmanager
def looking(place: Place) -> Iterator[TwinHalves]:
    twins = TwinHalves(place.topics, partial(reading_consumer, place.bootstrap_servers))
    try:
        yield twins
    finally:
        twins.close()


def found(twins: TwinHalves, offset: int, name: str, partition: int = 0) -> Twins:
    """The first look may take longer than a check has."""

    async def look() -> Twins:
        for _ in range(30):
            if (said := await twins.find(HalfPosition(partition, offset), name, "shop")) is not None:
                return said
        raise AssertionError("it is not found")

    return asyncio.run(look())


def places(*offsets: int, partition: int = 0) -> tuple[HalfPosition, ...]:
    return tuple(HalfPosition(partition, offset) for offset in offsets)


def test_one_that_was_sent_once_is_alone(place: Place) -> None:
    """Also if another group's has the same id, and one that Kafka has no longer."""
    write(place, (FIRST, NOW_MS), ("other", NOW_MS), (SECOND, NOW_MS))
    write(place, (SECOND, NOW_MS + 1), group="evil")
    write(place, (FIRST, NOW_MS), partition=1)
    with looking(place) as twins:
        assert found(twins, 0, FIRST) == Twins(places(0))
        assert found(twins, 2, SECOND) == Twins(places(2))
        assert found(twins, 0, FIRST, partition=1) == Twins(places(0, partition=1))
        assert found(twins, 1, NAMED + "3" * 32) == Twins(places(1))


def test_those_of_one_id_are_found_from_each_of_them_also_when_they_come_later(place: Place) -> None:
    write(place, (FIRST, NOW_MS), ("other", NOW_MS), (FIRST, NOW_MS + 3_000))
    with looking(place) as twins:
        assert found(twins, 2, FIRST).places == found(twins, 0, FIRST).places == places(0, 2)
        write(place, (FIRST, NOW_MS + 6_000))
        assert found(twins, 0, FIRST).places == places(0, 2, 3)


def test_no_further_than_a_minute(place: Place) -> None:
    write(place, (FIRST, NOW_MS), *([("other", NOW_MS + 1)] * 20), (FIRST, NOW_MS + APART_MS + 1))
    with looking(place) as twins:
        assert found(twins, 0, FIRST).places == places(0)
        assert found(twins, 21, FIRST).places == places(21)
        write(place, (FIRST, NOW_MS + 2 * APART_MS + 1))
        assert found(twins, 21, FIRST).places == places(21, 22)
        assert found(twins, 0, FIRST).places == places(0)  # an earlier one again


def test_one_made_up_time_hides_none(place: Place) -> None:
    write(place, (FIRST, NOW_MS), (SECOND, NOW_MS + 2 * APART_MS), (FIRST, NOW_MS + 1))
    with looking(place) as twins:
        assert found(twins, 0, FIRST).places == places(0, 2)


DECIDES = {
    (Action.COMMIT, Source.PRODUCER): True,
    (Action.COMMIT, Source.CHECK): True,
    (Action.COMMIT, Source.OPERATOR): True,
    (Action.ROLLBACK, Source.PRODUCER): False,
    (Action.ROLLBACK, Source.OPERATOR): False,
    (Action.ROLLBACK, Source.CHECK): False,
    (Action.UNKNOWN, Source.PRODUCER): False,
}


def test_what_has_been_decided_is_read_from_the_ops(place: Place) -> None:
    sent = [(NAMED + f"{number}" * 32, places(2 * number, 2 * number + 1)) for number in range(len(DECIDES))]
    for (name, (first, second)), (action, source) in zip(sent, DECIDES, strict=True):
        write(place, (name, NOW_MS), (name, NOW_MS + 3_000))
        decide(
            place, NAMED + "9" * 32, first, Action.COMMIT, Source.PRODUCER
        )  # another id: it says nothing of this one
        decide(place, name, first, Action.COMMIT, Source.PRODUCER, group="evil")
        decide(place, name, second, action, source)
    with looking(place) as twins:
        for (name, (first, second)), (said, decides) in zip(sent, DECIDES.items(), strict=True):
            expected = Twins((first, second), second if decides else None)
            assert found(twins, first.offset, name) == expected, said


def test_a_place_that_is_not_there_holds_up_nobody(place: Place) -> None:
    """The half topic was made again, or somebody has made it up."""
    write(place, (FIRST, NOW_MS), (FIRST, NOW_MS + 1))
    for partition, offset in ((77, 0), (1, 3), (0, 500)):
        with looking(place) as twins:
            asyncio.run(twins.find(HalfPosition(partition, offset), SECOND, "shop"))
            assert found(twins, 0, FIRST).places == places(0, 1)


def test_topics_that_were_made_again_are_read_again(place: Place) -> None:
    write(place, *([("other", NOW_MS)] * 30), (FIRST, NOW_MS))
    with looking(place) as twins:
        assert found(twins, 30, FIRST).places == places(30)
        made(place, again=True)
        write(place, (FIRST, NOW_MS), (FIRST, NOW_MS + 1))
        assert found(twins, 0, FIRST).places == places(0, 1)


def test_also_one_that_has_grown_longer_than_it_was(place: Place) -> None:
    write(place, *([("other", NOW_MS)] * 3), (FIRST, NOW_MS))
    with looking(place) as twins:
        assert found(twins, 3, FIRST).places == places(3)
        made(place, again=True)
        write(place, (SECOND, NOW_MS), ("other", NOW_MS), (SECOND, NOW_MS), *([("other", NOW_MS)] * 20))
        assert found(twins, 2, SECOND).places == places(0, 2)
        assert found(twins, 3, FIRST).places == places(3)  # another one lies there now: it is alone


def test_a_commit_of_one_that_is_not_of_them_hides_none(place: Place) -> None:
    write(place, (FIRST, NOW_MS), (FIRST, NOW_MS + 3_000))
    first, second, other = places(0, 1, 99)
    decide(place, FIRST, other, Action.COMMIT, Source.PRODUCER)
    with looking(place) as twins:
        assert found(twins, 0, FIRST) == Twins((first, second))
        decide(place, FIRST, second, Action.COMMIT, Source.PRODUCER)
        assert found(twins, 0, FIRST) == Twins((first, second), second)


def test_what_is_too_much_for_one_look_is_known_after_several(place: Place) -> None:
    write(place, (FIRST, NOW_MS), *([("other", NOW_MS + 1)] * 3_000), (FIRST, NOW_MS + 2))
    with closing(reading_consumer(place.bootstrap_servers)) as consumer:
        reader = PartitionReader(consumer, TopicPartition(place.topics.half, 0))
        index, looks = HalfIndex(reader), 1
        number = number_of({"cb-id": FIRST.encode(), "cb-group": b"shop"})
        reading = reader.read
        reader.read = lambda *given: islice(reading(*given), 1)  # type: ignore[method-assign]  # one piece of it at a time
        while (there := index.find(0, number, monotonic() + 60)) is None:
            looks += 1
        assert (sorted(there), looks > 1) == ([0, 3_001], True)


def test_of_more_than_is_kept_the_first_ones_are_looked_through(place: Place) -> None:
    write(place, *([("other", NOW_MS)] * 200), (FIRST, NOW_MS), *([("other", NOW_MS)] * 200), (FIRST, NOW_MS + 1))
    with closing(reading_consumer(place.bootstrap_servers)) as consumer:
        reader = PartitionReader(consumer, TopicPartition(place.topics.half, 0))
        number = number_of({"cb-id": FIRST.encode(), "cb-group": b"shop"})
        index = HalfIndex(reader, 100)
        assert [index.find(200, number, monotonic() + 60) for _ in range(2)] == [{200: NOW_MS}] * 2
        assert index.find(401, number, monotonic() + 60) == {401: NOW_MS + 1}


def test_what_was_not_read_in_time_is_not_taken_for_what_is_not_there(place: Place) -> None:
    write(place, (FIRST, NOW_MS))
    with closing(reading_consumer(place.bootstrap_servers)) as consumer:
        reader = PartitionReader(consumer, TopicPartition(place.topics.half, 0))
        with pytest.raises(TimeoutError):
            reader.one(0, monotonic() - 1)
        assert reader.one(1, monotonic() - 1) is None
