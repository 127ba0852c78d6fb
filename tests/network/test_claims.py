"""Late requests by which a run takes the claim on its topics, or ``checkback grow`` stores progress."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from checkback.exceptions import TakenOverError
from checkback.wire.groups import claim_group
from streaming.brokers.client import SinkSettings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.checkpoint.progress import Progress, progress_group
from streaming.growing import _Growth
from streaming.kafka_sink.beginning import Beginning
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.fence import read_progress
from streaming.ownership.generations import Generations
from tests.place import Place
from torture.network.proxy import Api, Deed, KafkaProxy, Rule

STORING = (Api.OFFSET_COMMIT, Api.TXN_OFFSET_COMMIT)


def claim(place: Place, address: str) -> Claim:
    return Claim(SinkSettings(address, place.topics, 60_000))


@pytest.mark.parametrize("taken", [True, False], ids=["after the next take", "before the next take"])
@pytest.mark.parametrize(
    "apis",
    [STORING, [Api.INIT_PRODUCER_ID], [Api.ADD_OFFSETS_TO_TXN], [Api.END_TXN]],
    ids=lambda apis: apis[-1].name,
)
def test_a_late_request_of_the_run_before_changes_no_claim(
    place: Place, network: KafkaProxy, apis: list[Api], *, taken: bool
) -> None:
    late = [Rule(api, Deed.HOLD_AND_CUT, claim_group(place.topics).encode()) for api in apis]
    first, second = Owner("query-1"), Owner("query-1")
    with closing(claim(place, network.address)) as before, closing(claim(place, place.bootstrap_servers)) as after:
        network.add(*late)
        before.take(first)
        network.clear()
        if taken:
            after.take(second)
        (request,) = [request for rule in late for request in rule.requests]
        network.wait(request.arrive())
        if not taken:
            after.judge(second, new_checkpoint=False)
            assert after.owner() == first
            after.take(second)
        assert after.owner() == second
        with pytest.raises(TakenOverError):
            before.refuse_another(first)
        after.refuse_another(second)


@pytest.mark.parametrize("apis", [STORING, [Api.ADD_OFFSETS_TO_TXN], [Api.END_TXN]], ids=lambda apis: apis[-1].name)
def test_a_late_request_of_a_growth_moves_no_progress(place: Place, network: KafkaProxy, apis: list[Api]) -> None:
    query_id, number = uuid4().hex, 2
    late = [Rule(api, Deed.HOLD_AND_CUT, progress_group(query_id).encode()) for api in apis]
    checkpoint: Any = SimpleNamespace(
        query_id=lambda: query_id, entry=lambda batch: SimpleNamespace(content_hash=f"hash of {batch}")
    )
    spark: Any = None
    settings = place.on(network.address).settings()
    growth = _Growth(spark, settings, SinkSettings.of(settings), checkpoint, "half-topic")
    network.add(*late)
    growth._store_progress(6, range(number, number + 1))
    network.clear()
    sink = SinkSettings(place.bootstrap_servers, place.topics, 60_000)
    assert read_progress(sink, query_id, number + 1, settled=True)[number] == Progress(7, "hash of 6")
    write_batch(sink, query_id, TopicPartition(place.topics.progress, number, 8, "hash of 7"))
    (request,) = [request for rule in late for request in rule.requests]
    network.wait(request.arrive())
    assert read_progress(sink, query_id, number + 1, settled=True)[number] == Progress(8, "hash of 7")


def write_batch(sink: SinkSettings, query_id: str, place: TopicPartition) -> None:
    """An empty batch of a state partition, as a task of the job writes it."""
    consumer = Consumer(sink.client(**{"group.id": progress_group(query_id)}))
    with closing(consumer), closing(Generations(sink.client(), query_id, place.topic)) as holds:
        directory = TopicDirectory(Brokers(sink.client()))
        beginning = Beginning(sink.client(), query_id, 60_000, place, (consumer, holds), directory)
        transaction, _ = beginning.open()
        transaction.begin(KnownLimits())
        transaction.commit([place], consumer.consumer_group_metadata())
