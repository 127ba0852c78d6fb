"""A lane, and those who settle it, on a real Kafka with both libraries in all pairs."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.kafka.connecting import TransportName
from checkback.kafka.kafka_python.library import KafkaError, TopicPartition
from checkback.kafka.lane_writers import lane_writer
from checkback.kafka.lanes import LaneLostError, LanePlace, LaneRecord, LaneRefusedError
from checkback.kafka.settling import Settler, connect_settler
from checkback.operations.topics import TopicAdministration
from checkback.wire.lanes import new_lane, transactional_id
from checkback.wire.ledger import PARTITION, Ledger
from checkback.wire.protocol import HalfPosition
from tests.kafka.lanes import opened
from tests.place import Place

SOME = Ledger([HalfPosition(3, 81), HalfPosition(3, 82), HalfPosition(0, 7)])


@pytest.fixture(params=TransportName)
def transport(request: pytest.FixtureRequest) -> TransportName:
    return TransportName(request.param)


@pytest.fixture(params=TransportName)
def settler(request: pytest.FixtureRequest, place: Place) -> Iterator[Settler]:
    with closing(connect_settler(request.param, place.bootstrap_servers, place.topics, {})) as made:
        yield made


def test_a_settled_lane_is_known_and_delivers_no_more(transport: TransportName, settler: Settler, place: Place) -> None:
    lane = new_lane()
    with closing(opened(transport, place, lane)) as writer:
        message = LaneRecord(place.real_topic, None, b"k", b"v1", [("cb-id", b"a1")])
        writer.deliver([message], SOME)
        assert settler.settle("orders", lane) == SOME
        with pytest.raises(LaneLostError):
            writer.deliver([message._replace(value=b"v2")], Ledger())
    assert settler.settle("orders", lane) == SOME
    assert [record.value for record in place.read(place.real_topic)] == [b"v1"]


def test_a_lane_that_delivers_nothing_has_an_empty_ledger(
    transport: TransportName, settler: Settler, place: Place
) -> None:
    lane = new_lane()
    with closing(opened(transport, place, lane)):
        assert settler.settle("orders", lane) == Ledger()


def test_an_offset_that_was_set_by_hand_is_no_ledger(transport: TransportName, settler: Settler, place: Place) -> None:
    """As ``kafka-consumer-groups --reset-offsets`` leaves it: taken for an empty ledger, what it listed came twice."""
    lane = new_lane()
    with closing(opened(transport, place, lane)) as writer:
        writer.deliver([LaneRecord(place.real_topic, None, b"k", b"v1", [("cb-id", b"a1")])], SOME)
    group = transactional_id("orders", lane)
    at = KafkaTopicPartition(place.topics.progress, PARTITION, 0)
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [at])])[group].result(30)
    assert settler.settle("orders", lane) is None


def test_of_what_is_no_lane_nobody_can_know(settler: Settler) -> None:
    assert settler.settle("orders", new_lane()) is None
    with pytest.raises(ProtocolError, match="cb-lane"):
        settler.settle("orders", "checkback-claim")


def test_a_refused_message_is_named_and_the_lane_goes_on(transport: TransportName, place: Place) -> None:
    lane = new_lane()
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    with closing(opened(transport, place, lane)) as writer:
        good = LaneRecord(place.real_topic, 1, None, b"good", [])
        for number in range(3):
            with pytest.raises(LaneRefusedError) as refused:
                writer.deliver([good, LaneRecord(small, 0, None, b"x" * 2_000, [])], SOME)
            assert refused.value.numbers == {1}
            writer.deliver([good._replace(value=b"%d" % number)], SOME)
        with pytest.raises(LaneRefusedError):
            writer.deliver([LaneRecord(place.real_topic, 99, None, b"", [])], SOME)
        writer.deliver([good._replace(value=b"last")], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"0", b"1", b"2", b"last"]


@pytest.mark.parametrize("place_of_it", [0, 5, 20])
def test_many_that_were_sent_beside_a_refused_one_do_not_fail_the_next_transaction(
    transport: TransportName, place: Place, place_of_it: int
) -> None:
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    refusals = [LaneRecord(place.real_topic, 99, None, b"", []), LaneRecord(small, 0, None, b"x" * 2_000, [])]
    with closing(opened(transport, place, new_lane())) as writer:
        for number, refusal in enumerate(2 * refusals):
            sent = [LaneRecord(place.real_topic, one % 4, None, b"good", []) for one in range(20)]
            sent.insert(place_of_it, refusal)
            with pytest.raises(LaneRefusedError) as refused:
                writer.deliver(sent, SOME)
            assert refused.value.numbers == {place_of_it}
            writer.deliver([LaneRecord(place.real_topic, 0, None, b"%d" % number, [])], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"0", b"1", b"2", b"3"]


def test_a_topic_that_was_deleted_does_not_cost_the_lane(transport: TransportName, place: Place) -> None:
    good = LaneRecord(place.real_topic, 1, None, b"good", [])
    with closing(opened(transport, place, new_lane())) as writer:
        with pytest.raises(LaneRefusedError) as refused:
            writer.deliver([good, good._replace(topic=f"{place.topics.prefix}gone"), good], SOME)
        assert 1 in refused.value.numbers
        writer.deliver([good], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]


def test_what_a_group_of_other_letters_needs_is_said_at_once(transport: TransportName, place: Place) -> None:
    name = transactional_id("größe", new_lane())
    writer = lane_writer(transport, LanePlace(place.bootstrap_servers, place.topics, name, {}))
    with closing(writer):
        if transport is TransportName.KAFKA_PYTHON:
            writer.open()
        else:
            with pytest.raises(ConfigurationError, match=r"printable ASCII.*kafka-python"):
                writer.open()


def test_one_that_is_refused_while_others_are_sent_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python's next ``send`` fails then, and does not say which record was refused."""
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    with closing(opened(TransportName.KAFKA_PYTHON, place, new_lane())) as writer:
        producer: Any = writer._producer  # type: ignore[attr-defined]  # of this library's
        send = producer.send

        def slowly(*arguments: Any, **named: Any) -> Any:
            future = send(*arguments, **named)
            with suppress(KafkaError):
                future.get(timeout=60)
            return future

        monkeypatch.setattr(producer, "send", slowly)
        good = LaneRecord(place.real_topic, 1, None, b"good", [])
        with pytest.raises(LaneRefusedError) as refused:
            writer.deliver([LaneRecord(small, 0, None, b"x" * 2_000, []), good], SOME)
        assert refused.value.numbers == {0}
        writer.deliver([good], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]


def test_what_was_not_sent_yet_when_another_was_refused_is_not_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python gives it up with the other one's error; its topic would go the job's way for a minute."""
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    with closing(opened(TransportName.KAFKA_PYTHON, place, new_lane())) as writer:
        producer: Any = writer._producer  # type: ignore[attr-defined]  # of this library's
        good = LaneRecord(place.real_topic, 1, None, b"good", [])
        with monkeypatch.context() as held:  # what is muted is not sent
            held.setattr(producer._accumulator, "muted", {TopicPartition(place.real_topic, 1)})
            with pytest.raises(LaneRefusedError) as refused:
                writer.deliver([good, LaneRecord(small, 0, None, b"x" * 2_000, [])], SOME)
        assert refused.value.numbers == {1}
        writer.deliver([good], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]


def test_a_lane_knows_its_topics(transport: TransportName, place: Place) -> None:
    with closing(opened(transport, place, new_lane())) as writer:
        assert writer.partitions([place.real_topic, "no.such.topic"]) == {place.real_topic: 4, "no.such.topic": 0}
