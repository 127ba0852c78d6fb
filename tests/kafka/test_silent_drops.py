"""Load balancers drop connections that are idle for minutes, and tell neither side. No client may wait for such one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest

from checkback.kafka import librdkafka, reaching
from checkback.kafka.connecting import TransportName, connect
from checkback.kafka.librdkafka.library import AdminClient, Consumer, NewTopic, Producer
from checkback.kafka.transport import OutgoingRecord, Transport
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from conf import Settings
from streaming.query import kafka_source
from tests.place import wait_until
from tests.silent_proxy import SilentProxy

IDLE_MS = 1_000
DROPPED_AFTER = 3.0
ANSWER_SECONDS = 4.0
"""A client that uses a dropped connection waits for longer: for its request's time limit."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalKafka, SilentProxy]]:
    """A broker that clients reach through a proxy."""
    port = free_port()
    with SilentProxy(port, DROPPED_AFTER) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with LocalKafka(tmp_path_factory.mktemp("kafka") / "data", port=port, properties=advertised) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            admin.create_topics([NewTopic("silent", 1, 1)])["silent"].result()
            yield broker, proxy


def confluent(kind: Any, ask: Callable[[Any], object]) -> Callable[[str], tuple[Any, Callable[[], object]]]:
    def made(servers: str) -> tuple[Any, Callable[[], object]]:
        group = {"group.id": "asking"} if kind is Consumer else {}
        client = librdkafka.make_client(kind, {"bootstrap.servers": servers, "log_level": 2, **group})
        return client, lambda: ask(client)

    return made


def written(client: Producer) -> None:
    client.produce("silent", b"value")
    assert client.flush(60) == 0


CLIENTS = {
    "producer, librdkafka": confluent(Producer, written),
    "consumer, librdkafka": confluent(Consumer, lambda client: client.list_topics(timeout=60)),
    "admin, librdkafka": confluent(AdminClient, lambda client: client.list_topics(timeout=60)),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_no_request_goes_down_a_connection_that_was_idle_for_long(
    kafka: tuple[LocalKafka, SilentProxy], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _, proxy = kafka
    monkeypatch.setattr(librdkafka, "IDLE_MS", IDLE_MS)
    client, ask = CLIENTS[name](f"127.0.0.1:{proxy.port}")
    ask()
    used = proxy.alive
    wait_until(lambda: not used & proxy.alive, "the end of all connections")
    began = monotonic()
    ask()
    assert monotonic() - began < ANSWER_SECONDS
    if not isinstance(client, Producer | AdminClient):
        client.close()


@pytest.mark.parametrize("transport", TransportName)
def test_a_half_message_is_written_although_its_connection_was_dropped(
    kafka: tuple[LocalKafka, SilentProxy], transport: TransportName
) -> None:
    """A firewall may drop a connection earlier than its client closes it: that leaves time for another try."""
    _, proxy = kafka
    with closing_in(connect(transport, f"127.0.0.1:{proxy.port}", 6_000, {})) as connected:
        record = OutgoingRecord("silent", 0, None, b"value", [])
        connected.write_half(record)
        proxy.drop()
        connected.write_half(record)


@contextmanager
def closing_in(transport: Transport) -> Iterator[Transport]:
    yield transport
    transport.close(1)


def settings_of(**given: Any) -> dict[str, Any]:
    """Those that a client of librdkafka is made with."""
    made: dict[str, Any] = librdkafka.make_client(dict, given)
    return made


def test_a_request_waits_no_longer_than_the_transaction_that_it_is_for() -> None:
    """Librdkafka refuses that; what is not a number, it refuses itself."""
    assert settings_of()["socket.timeout.ms"] == reaching.REQUEST_MS
    for given, transaction, used in ((30_000, 5_000, 5_000), ("500", 5_000, 500), ("soon", 5_000, "soon")):
        settings = {"socket.timeout.ms": given, "transaction.timeout.ms": transaction}
        assert settings_of(**settings)["socket.timeout.ms"] == used
    assert settings_of(**{"transaction.timeout.ms": 5_000})["socket.timeout.ms"] == 5_000
    assert settings_of(**{"socket.timeout.ms": 30_000})["socket.timeout.ms"] == 30_000


def test_sparks_source_closes_idle_connections() -> None:
    assert kafka_source(Settings())["kafka.connections.max.idle.ms"] == str(reaching.IDLE_MS)
