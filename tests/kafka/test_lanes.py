"""A lane, and who settles it, on a real Kafka."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient

from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.kafka.librdkafka.lanes import Lane, LaneLostError, LanePlace, LaneRecord, LaneRefusedError
from checkback.kafka.librdkafka.settling import Settler
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.lanes import new_lane, transactional_id
from checkback.wire.ledger import PARTITION, Ledger
from checkback.wire.protocol import HalfPosition
from tests.kafka.lanes import opened
from tests.place import Place, fresh_place, with_real_topic

SOME = Ledger([HalfPosition(3, 81), HalfPosition(3, 82), HalfPosition(0, 7)])


@pytest.fixture(scope="module")
def whole(broker: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Topics for all tests here: each has a lane of its own."""
    with fresh_place(broker.bootstrap_servers, tmp_path_factory.mktemp("lanes")) as made:
        yield made


@pytest.fixture
def place(whole: Place) -> Place:
    return with_real_topic(whole)


@pytest.fixture
def settler(place: Place) -> Settler:
    return Settler(place.bootstrap_servers, place.topics, {})


def test_a_settled_lane_is_known_and_delivers_no_more(settler: Settler, place: Place) -> None:
    lane = new_lane()
    with closing(opened(place, lane)) as writer:
        message = LaneRecord(place.real_topic, None, b"k", b"v1", [("cb-id", b"a1")])
        writer.deliver([message], SOME)
        assert settler.settle("orders", lane) == SOME
        with pytest.raises(LaneLostError):
            writer.deliver([message._replace(value=b"v2")], Ledger())
    assert settler.settle("orders", lane) == SOME
    assert [record.value for record in place.read(place.real_topic)] == [b"v1"]


def test_a_lane_that_delivers_nothing_has_an_empty_ledger(settler: Settler, place: Place) -> None:
    lane = new_lane()
    with closing(opened(place, lane)):
        assert settler.settle("orders", lane) == Ledger()


def test_an_offset_that_was_set_by_hand_is_no_ledger(settler: Settler, place: Place) -> None:
    """As ``kafka-consumer-groups --reset-offsets`` leaves it: taken for an empty ledger, what it listed came twice."""
    lane = new_lane()
    with closing(opened(place, lane)) as writer:
        writer.deliver([LaneRecord(place.real_topic, None, b"k", b"v1", [("cb-id", b"a1")])], SOME)
    group = transactional_id("orders", lane)
    at = KafkaTopicPartition(place.topics.progress, PARTITION, 0)
    admin = AdminClient({"bootstrap.servers": place.bootstrap_servers})
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [at])])[group].result(30)
    assert settler.settle("orders", lane) is None


def test_of_what_is_no_lane_nobody_can_know(settler: Settler) -> None:
    for group in ("orders", "größe"):
        assert settler.settle(group, new_lane()) is None
    with pytest.raises(ProtocolError, match="cb-lane"):
        settler.settle("orders", "checkback-claim")


def test_a_refused_message_is_named_and_the_lane_goes_on(place: Place) -> None:
    lane = new_lane()
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    with closing(opened(place, lane)) as writer:
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


def test_many_that_were_sent_beside_a_refused_one_do_not_fail_the_next_transaction(place: Place) -> None:
    small = f"{place.topics.prefix}small"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(small, 1, 1, {"max.message.bytes": "1000"})
    refusals = [LaneRecord(place.real_topic, 99, None, b"", []), LaneRecord(small, 0, None, b"x" * 2_000, [])]
    for place_of_it in (0, 5, 20):
        with closing(opened(place, new_lane())) as writer:
            for number, refusal in enumerate(2 * refusals):
                sent = [LaneRecord(place.real_topic, one % 4, None, b"good", []) for one in range(20)]
                sent.insert(place_of_it, refusal)
                with pytest.raises(LaneRefusedError) as refused:
                    writer.deliver(sent, SOME)
                assert refused.value.numbers == {place_of_it}
                writer.deliver([LaneRecord(place.real_topic, 0, None, b"%d" % number, [])], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"0", b"1", b"2", b"3"] * 3


def test_a_topic_that_was_deleted_does_not_cost_the_lane(place: Place) -> None:
    good = LaneRecord(place.real_topic, 1, None, b"good", [])
    with closing(opened(place, new_lane())) as writer:
        with pytest.raises(LaneRefusedError) as refused:
            writer.deliver([good, good._replace(topic=f"{place.topics.prefix}gone"), good], SOME)
        assert 1 in refused.value.numbers
        writer.deliver([good], SOME)
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]


def test_what_a_group_of_other_letters_needs_is_said_at_once(place: Place) -> None:
    name = transactional_id("größe", new_lane())
    with (
        closing(Lane(LanePlace(place.bootstrap_servers, place.topics, name, {}))) as lane,
        pytest.raises(ConfigurationError, match=r"printable ASCII, which 'checkback-lane:größe:.*another name"),
    ):
        lane.open()


def test_a_lane_knows_its_topics(place: Place) -> None:
    with closing(opened(place, new_lane())) as writer:
        assert writer.partitions([place.real_topic, "no.such.topic"]) == {place.real_topic: 4, "no.such.topic": 0}
