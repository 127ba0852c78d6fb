"""A broker behind a proxy for all tests here, and topics of each test: by the broker's own address, and the proxy's."""

import gc
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from checkback.kafka.librdkafka.connection_log import ConnectionLog
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from checkback.wire.protocol import Topics
from tests.place import Place, wait_until
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


@pytest.fixture(scope="module", autouse=True)
def _no_client_runs_on() -> Iterator[None]:
    """Each of librdkafka's clients ends with the object that has lost its connection or its transaction."""
    before = librdkafka_clients()
    yield
    wait_until(lambda: gc.collect() >= 0 and librdkafka_clients() <= before, "the end of all clients of these tests")


def librdkafka_clients() -> int:
    """How many of them run in this process."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # one that has just ended
            names.append((thread / "comm").read_text(encoding="utf-8").strip())
    return names.count("rdk:main")


@pytest.fixture(params=[True, False], ids=["cured", "without the cure"])
def cured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a client notices a lost connection. Without that, a test of the cure must see the damage."""
    if not request.param:
        monkeypatch.setattr(ConnectionLog, "log", lambda *_: None)
        monkeypatch.setattr(Transactional, "_connection_lost", lambda _self: False)
    return bool(request.param)
