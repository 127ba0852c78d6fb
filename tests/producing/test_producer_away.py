"""A producer whose Kafka is away, or has lost what it knew."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from checkback import (
    ConfigurationError,
    HalfMessage,
    HalfMessageError,
    HalfMessageTimeoutError,
    Message,
    Topics,
    TransactionProducer,
)
from checkback.kafka.connecting import TransportName
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from tests.place import Place, wait_until
from tests.producing.producing import Recorder, listener


def test_a_missing_half_topic_is_a_mistake_of_configuration(transport: TransportName, place: Place) -> None:
    missing = Topics("missing." + place.topics.prefix)
    with pytest.raises(ConfigurationError, match=rf"no topic {missing.half}.*checkback topics create"):
        TransactionProducer(place.bootstrap_servers, "orders", topics=missing, half_timeout_ms=500, transport=transport)


def test_without_kafka_it_says_so_quickly(transport: TransportName) -> None:
    threads = set(threading.enumerate())
    since = time.monotonic()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        server = f"127.0.0.1:{bound.getsockname()[1]}"
        options = {"bootstrap_timeout_ms": 300} if transport is TransportName.KAFKA_PYTHON else {}
        with pytest.raises(ConfigurationError, match=f"No Kafka answers at {server}"):
            TransactionProducer(server, "orders", half_timeout_ms=300, transport=transport, kafka_options=options)
    assert time.monotonic() - since < 5
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(5)
    assert not any(thread.is_alive() for thread in left)


def _prepared(producer: TransactionProducer) -> HalfMessage:
    """A half message: a broker that has just started may be slow to acknowledge the first one."""
    while True:
        with suppress(HalfMessageTimeoutError):
            return producer.prepare(Message("paid", b"value"))


def test_kafka_going_away_is_a_time_out_that_may_be_tried_again(
    transport: TransportName, ran: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalKafka() as kafka:
        with TopicAdministration(kafka.bootstrap_servers) as administration:
            for topic in (Topics().half, Topics().op, Topics().progress, "paid"):
                administration.create_one(topic, 1)
        producer = TransactionProducer(
            kafka.bootstrap_servers, "orders", listener(ran), half_timeout_ms=1_500, transport=transport
        )
        message = _prepared(producer)
        direct = TransactionProducer(
            kafka.bootstrap_servers, "orders", half_timeout_ms=1_500, transport="confluent-kafka", delivery="direct"
        )
        of_a_lane = _prepared(direct)
        kafka.kill()
        direct.commit(of_a_lane)
        since = monotonic()
        direct.close(seconds=2)
        assert monotonic() - since < 2 + 1 + 1.5  # the client has a second of its own, and the machine is shared
        assert [one.getMessage() for one in caplog.records if of_a_lane.transaction_id in one.getMessage()]
        with pytest.raises(HalfMessageError) as raised:
            producer.send_in_transaction(Message("paid", b"value"))
        assert raised.value.retriable
        assert ran.ran == []
        producer.commit(message)  # lost, and left to the check
        producer.close(seconds=1)
    assert not kafka.log_file.parent.exists()  # also of a broker that was killed


def test_after_an_outage_longer_than_a_half_may_wait_halves_and_ops_go_on(
    transport: TransportName, tmp_path: Path
) -> None:
    """Some were under way when the broker died: kafka-python sent nothing any more, for ever."""
    stopping, at, timed_out = threading.Event(), [0.0] * 3, set[int]()
    with LocalKafka(tmp_path / "kafka") as kafka:
        with TopicAdministration(kafka.bootstrap_servers) as administration:
            for topic in (Topics().half, Topics().op):
                administration.create_one(topic, 1)
        producer = TransactionProducer(kafka.bootstrap_servers, "orders", half_timeout_ms=1_500, transport=transport)

        def trade(number: int) -> None:
            while not stopping.is_set():
                try:
                    producer.commit(producer.prepare(Message("paid", b"value")))
                    at[number] = monotonic()
                except HalfMessageTimeoutError:
                    timed_out.add(number)

        threads = [threading.Thread(target=trade, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: min(at) > 0)
            kafka.kill()
            wait_until(lambda: len(timed_out) == 3)
            kafka.start()
            up = monotonic()
            wait_until(lambda: min(at) > up)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        last = producer.prepare(Message("paid", b"value"))
        producer.commit(last)
        producer.close(seconds=30)
        ops = Place(kafka.bootstrap_servers, Topics(), "paid", tmp_path).read(Topics().op)
    assert last.transaction_id in {dict(op.headers)["cb-id"].decode() for op in ops}


def test_a_producer_id_that_was_given_up_is_asked_for_again(place: Place) -> None:
    with TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics) as producer:
        given_up: Any = producer._transport
        given_up._halves.client._transaction_manager.reset_producer_id()
        producer.prepare(Message("paid", b"value"))
    assert len(place.read(place.topics.half)) == 1
