"""Half messages that consumers have written to ``cb.later`` get to ``cb.half``, each once."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from checkback.exceptions import JobFailedError, TakenOverError
from checkback.topics import TopicAdministration
from streaming import forwarding
from streaming.brokers import bounded
from streaming.brokers.client import SinkSettings
from streaming.forwarding import Forwarder
from tests.place import Place, wait_until

HEADERS: list[tuple[str, bytes | None]] = [("cb-id", b"1"), ("cb-topic", b"x"), ("a", None), ("a", b"\xff"), ("", b"")]


def settings(place: Place) -> SinkSettings:
    return SinkSettings(place.bootstrap_servers, place.topics, 60_000)


@pytest.fixture
def forwarder(place: Place) -> Iterator[Forwarder]:
    made = Forwarder(settings(place))
    made.start()
    yield made
    made.stop()


def transactional(place: Place, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(20)
    return producer


def write(place: Place, *values: bytes | None, headers: Any = HEADERS, partition: int = 1) -> None:
    producer = transactional(place, f"{place.topics.prefix}{threading.get_ident()}")
    producer.begin_transaction()
    for value in values:
        producer.produce(place.topics.later, value, b"key", partition, headers=headers)
    producer.commit_transaction(20)


def halves(place: Place) -> list[bytes | None]:
    return [record.value for record in place.read(place.topics.half)]


def test_records_are_moved_as_they_are(place: Place, forwarder: Forwarder) -> None:
    write(place, b"one", None)
    wait_until(lambda: len(halves(place)) == 2)
    for record, value in zip(place.read(place.topics.half), (b"one", None), strict=True):
        assert (record.partition, record.key, record.value, record.headers) == (1, b"key", value, HEADERS)


def test_a_transaction_whose_offsets_are_lost_is_made_again_and_each_is_moved_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Librdkafka has lost the call: the next clients fence, and go on."""
    lost = [True]

    def add_offsets(*given: Any) -> None:
        if lost:
            lost.clear()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not taken", retriable=True))
        bounded.add_offsets(*given)

    monkeypatch.setattr(forwarding, "add_offsets", add_offsets)
    moves = Forwarder(settings(place))
    moves.start()
    try:
        write(place, b"one", b"other")
        wait_until(lambda: len(halves(place)) == 2)
        write(place, b"third")
        wait_until(lambda: halves(place) == [b"one", b"other", b"third"])
    finally:
        moves.stop()
    moves.raise_if_dead()


def test_what_is_not_committed_is_not_moved(place: Place, forwarder: Forwarder) -> None:
    producer = transactional(place, f"{place.topics.prefix}aborts")
    producer.begin_transaction()
    producer.produce(place.topics.later, b"never", b"key", 0)
    producer.flush(20)
    producer.abort_transaction(20)
    write(place, b"one", partition=0)
    wait_until(lambda: halves(place) == [b"one"])


def test_another_one_goes_on_where_the_first_has_stopped_and_takes_its_place(place: Place) -> None:
    first, second = Forwarder(settings(place)), Forwarder(settings(place))
    first.start()
    write(place, *[b"%d" % number for number in range(100)])
    wait_until(lambda: len(halves(place)) == 100)
    second.start()
    write(place, *[b"%d" % number for number in range(100, 200)])
    wait_until(lambda: len(halves(place)) == 200)
    write(place, b"200")
    wait_until(lambda: ends(first), what="its end")
    wait_until(lambda: len(halves(place)) == 201)
    with pytest.raises(TakenOverError, match="moves"):
        first.raise_if_dead()
    second.raise_if_dead()
    second.stop()
    assert sorted(halves(place)) == sorted(b"%d" % number for number in range(201))  # type: ignore[type-var]  # none is null


def fenced(*_: object) -> int:
    """What flush does when a fatal error comes while it calls our callback."""
    fatal = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    raise SystemError("returned a result with an exception set") from fatal


def test_who_is_fenced_within_a_call_has_been_taken_over_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding._Clients, "begin", lambda clients: setattr(clients, "_producer", Fenced()))
    monkeypatch.setattr(forwarding._Clients, "read", lambda _: [])
    monkeypatch.setattr(forwarding._Clients, "grown", lambda clients: clients._acknowledged())
    monkeypatch.setattr(forwarding, "_COUNT_SECONDS", 0.0)
    forwarder = Forwarder(settings(place))
    forwarder.start()
    wait_until(lambda: ends(forwarder), what="its end")
    with pytest.raises(TakenOverError, match="moves"):
        forwarder.raise_if_dead()


class Fenced:
    """A producer that has been fenced."""

    flush = staticmethod(fenced)

    def purge(self) -> None:
        """Nothing."""


def test_what_nobody_has_thought_of_ends_the_job_and_not_the_thread_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding._Clients, "begin", lambda _: 1 / 0)
    forwarder = Forwarder(settings(place))
    forwarder.start()
    wait_until(lambda: ends(forwarder), what="its end")
    with pytest.raises(JobFailedError, match=r"later failed: ZeroDivisionError"):
        forwarder.raise_if_dead()


def ends(forwarder: Forwarder) -> bool:
    return not forwarder._thread.is_alive()


def test_what_the_half_topic_does_not_take_is_a_dead_letter_of_its_group(place: Place) -> None:
    dead = place.topics.dead("points")
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, place.topics.half, {"max.message.bytes": "1000"})])
    admin.close()
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(dead, 1)
        administration.wait_for([dead])
    forwarder = Forwarder(settings(place))
    forwarder.start()
    wanted = [("cb-id", b"1"), ("cb-topic", place.topics.retry("points").encode()), ("checkback-tries", b"1")]
    write(place, b"small", bytes(2_000), headers=wanted)
    write(place, bytes(3_000), headers=[("cb-id", b"2"), ("cb-topic", b"elsewhere")])
    wait_until(lambda: bool(place.read(place.topics.rejected)))
    forwarder.stop()
    forwarder.raise_if_dead()
    assert halves(place) == [b"small"]
    (letter,) = place.read(dead)
    assert letter.value == bytes(2_000)
    assert [name for name, _ in letter.headers] == ["checkback-tries", "checkback-reason"]
    (rejected,) = place.read(place.topics.rejected)
    assert dict(rejected.headers)["cb-from"] == f"{place.topics.later}:1:3".encode()
