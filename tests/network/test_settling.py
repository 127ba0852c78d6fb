"""Late requests of a lane that was settled, of who settles it, and of the sink's probe."""

import threading
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkback.kafka.librdkafka.groups import committed_by
from checkback.kafka.librdkafka.lanes import Lane, LaneLostError, LaneRecord
from checkback.kafka.librdkafka.settling import Settler
from checkback.wire.lanes import new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import HalfPosition
from streaming.batch.record import Record
from streaming.brokers.client import SinkSettings, producer_settings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.kafka_sink.probe import probe_individually
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.kafka_sink.transaction import KafkaTransaction
from tests.kafka.lanes import opened
from tests.network.late import STEPS, arriving, each_step
from tests.place import Place, wait_until
from torture.network.proxy import Api, Deed, KafkaProxy, Rule

HALF = HalfPosition(0, 7)


@pytest.mark.parametrize("api", [Api.ADD_PARTITIONS_TO_TXN, *STEPS], ids=lambda api: api.name)
def test_what_was_read_of_a_settled_lane_stays_true(place: Place, network: KafkaProxy, api: Api) -> None:
    lane = new_lane()
    late = Rule(api, Deed.HOLD_AND_CUT, lane.encode(), number=0)
    writer = opened(place.on(network.address), lane)
    network.add(late)
    message = LaneRecord(place.real_topic, 0, b"k", b"sold", [])
    delivering = threading.Thread(target=deliver, args=(writer, message))
    delivering.start()
    wait_until(lambda: bool(late.requests))
    settler = Settler(place.bootstrap_servers, place.topics, {})
    with closing(writer):
        settled = settler.settle("orders", lane)
        network.clear()
        delivering.join()
        for request in late.requests:
            network.wait(request.arrive())
        assert settler.settle("orders", lane) == settled
    assert settled is not None
    assert len(place.read(place.real_topic)) == (HALF in settled)


def deliver(writer: Lane, message: LaneRecord) -> None:
    with pytest.raises(LaneLostError):
        writer.deliver([message], Ledger([HALF]))


def test_a_lane_is_settled_by_a_request_that_arrives_twice(place: Place, network: KafkaProxy) -> None:
    lane = new_lane()
    late = Rule(Api.INIT_PRODUCER_ID, Deed.HOLD_AND_CUT, lane.encode())
    with closing(opened(place, lane)) as writer:
        writer.deliver([LaneRecord(place.real_topic, 0, b"k", b"sold", [])], Ledger([HALF]))
        network.add(late)
        settler = Settler(network.address, place.topics, {})
        assert settler.settle("orders", lane) == Ledger([HALF])
        network.wait(late.request.arrive())
        assert settler.settle("orders", lane) == Ledger([HALF])
    assert [record.value for record in place.read(place.real_topic)] == [b"sold"]


class Batch:
    """One batch of a state partition, as the job writes it: again after each failure, unless it is written."""

    def __init__(self, place: Place, address: str) -> None:
        self.name = f"{place.topics.prefix}batch"
        self._topic = place.real_topic
        self._settings = SinkSettings(address, place.topics, 60_000)
        self.client = self._settings.client(**producer_settings(self.name, 60_000))
        self._directory = TopicDirectory(Brokers(self._settings.client()))
        self._done = TopicPartition(place.topics.progress, 0, 1)

    def record(self, value: bytes) -> Record:
        return Record(self._topic, 0, b"k", value, [])

    def written(self) -> bool:
        """Whether the batch is written now."""
        transaction = KafkaTransaction(self.client, 60_000, self._directory, self._done.topic)
        transaction.open()
        (found,) = committed_by(self.name, [self._done], self._settings.client())
        if found.offset == self._done.offset:
            return True
        try:
            transaction.begin(KnownLimits())
            transaction.produce([self.record(b"batch")])
            with closing(Consumer(self._settings.client(**{"group.id": self.name}))) as consumer:
                transaction.commit([self._done], consumer.consumer_group_metadata())
        except KafkaException:
            return False
        return True


@each_step
@pytest.mark.parametrize(
    "api", [Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE, Api.END_TXN], ids=lambda api: api.name
)
def test_a_late_request_of_the_probe_changes_no_batch(place: Place, network: KafkaProxy, api: Api, step: Api) -> None:
    batch = Batch(place, network.address)
    late = Rule(api, Deed.HOLD_AND_CUT, batch.name.encode())
    network.add(late)
    assert probe_individually(batch.client, [batch.record(b"probed"), batch.record(b"probed")], 0) == ({}, [])
    network.add(arriving(step, late))
    wait_until(batch.written)
    assert late.answered
    assert [record.value for record in place.read(place.real_topic)] == [b"batch"]
