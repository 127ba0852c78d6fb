"""A broker behind a proxy for all tests here, and topics of each test: by the broker's own address, and the proxy's."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkback.kafka.librdkafka.connection_log import ConnectionLog
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from checkback.wire.protocol import Topics
from tests.place import Place
from torture.network.broker import kafka_behind
from torture.network.proxy import KafkaProxy


@pytest.fixture(scope="session")
def proxied_broker() -> Iterator[tuple[LocalKafka, KafkaProxy]]:
    with KafkaProxy(free_port()) as proxy, kafka_behind(proxy) as kafka:
        yield kafka, proxy


@pytest.fixture
def network(proxied_broker: tuple[LocalKafka, KafkaProxy]) -> Iterator[KafkaProxy]:
    _, proxy = proxied_broker
    yield proxy
    proxy.clear()
    failures, proxy.failures = proxy.failures, []
    assert failures == []


@pytest.fixture
def place(proxied_broker: tuple[LocalKafka, KafkaProxy], tmp_path: Path) -> Iterator[Place]:
    kafka, _ = proxied_broker
    prefix = f"t{uuid.uuid4().hex[:12]}."
    made = Place(kafka.bootstrap_servers, Topics(prefix), f"{prefix}orders", tmp_path)
    made.create_topics(real_partitions=4)
    yield made
    made.delete_topics()


@pytest.fixture(params=[True, False], ids=["cured", "without the cure"])
def cured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a client notices a lost connection. Without that, a test of the cure must see the damage."""
    if not request.param:
        monkeypatch.setattr(ConnectionLog, "log", lambda *_: None)
        monkeypatch.setattr(Transactional, "_connection_lost", lambda _self: False)
    return bool(request.param)
