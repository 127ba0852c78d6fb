"""Brokers that accept little beside an offset (``offset.metadata.max.bytes``): the message names that setting."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checkback.consumer import ConsumeResult, PushConsumer
from checkback.exceptions import ConfigurationError
from checkback.kafka.librdkafka.lanes import LaneLostError, LaneRecord
from checkback.local import LocalKafka
from checkback.wire.lanes import new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import HalfPosition, Topics
from streaming.brokers.client import SinkSettings
from streaming.ownership.claim import Claim, Owner
from streaming.stops import explained
from tests.kafka.lanes import opened
from tests.place import Place, wait_until

SETTING = "set offset.metadata.max.bytes of the brokers to 4096"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with LocalKafka(properties={"offset.metadata.max.bytes": "8"}) as kafka:
        made = Place(kafka.bootstrap_servers, Topics(), "orders", tmp_path_factory.mktemp("small"))
        made.create_topics(real_partitions=1)
        yield made


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_consumer(small: Place, caplog: pytest.LogCaptureFixture, *, succeeds: bool) -> None:
    result = ConsumeResult.SUCCESS if succeeds else ConsumeResult.LATER
    group = f"group-{succeeds}"

    def is_named() -> bool:
        try:
            consumer.raise_if_dead()
        except ConfigurationError as error:
            return SETTING in str(error)
        return SETTING in caplog.text

    with PushConsumer(small.bootstrap_servers, group, lambda _: result, "orders") as consumer:
        with small.producer() as producer:
            producer.send("orders", b"value").get(120)
        wait_until(is_named, "the name of the setting")


def test_a_lane(small: Place) -> None:
    ledger = Ledger([HalfPosition(number, 12_345) for number in range(9)])
    with closing(opened(small, new_lane())) as lane, pytest.raises(LaneLostError, match=SETTING):
        lane.deliver([LaneRecord("orders", None, b"k", b"v", [("cb-id", b"1")])], ledger)


def test_the_job(small: Place, tmp_path: Path) -> None:
    settings = small.settings(job={"checkpoint": str(tmp_path)})
    with closing(Claim(SinkSettings.of(settings))) as claim, pytest.raises(Exception, match="METADATA") as error:
        claim.take(Owner("query"))
    found = explained(error.value, settings)
    assert isinstance(found, ConfigurationError)
    assert SETTING in str(found)
