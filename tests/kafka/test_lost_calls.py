"""Storing offsets with librdkafka, which may lose the call: nobody waits for it for ever."""

import gc
import threading
import weakref
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from checkback.kafka.librdkafka import transactional
from checkback.kafka.librdkafka.errors import result_of
from checkback.kafka.librdkafka.library import AdminClient, NewTopic
from checkback.kafka.librdkafka.transactional import Transactional

OFFSETS = [TopicPartition("cb.progress", 0, 7)]


class Losing:
    """librdkafka's producer, as far as it stores offsets."""

    def __init__(self, *, answers: bool, raises: int | None = None) -> None:
        self.answers = threading.Event()
        self.stored: list[Any] = []
        self._raises = raises
        if answers:
            self.answers.set()

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: Any, seconds: float) -> None:
        assert self.answers.wait(60)
        if self._raises is not None:
            raise KafkaException(KafkaError(self._raises))
        self.stored.append((offsets, group, seconds))


def add_offsets(client: Any, *given: Any) -> None:
    transaction = Transactional.__new__(Transactional)
    transaction.producer = client
    transaction.add_offsets(*given)


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional, "_LONGER_SECONDS", 0.05)


def test_what_is_answered_is_stored() -> None:
    client: Any = Losing(answers=True)
    add_offsets(client, OFFSETS, "group", 3.0)
    assert client.stored == [(OFFSETS, "group", 3.0)]


def test_what_is_lost_is_a_time_out_that_may_pass() -> None:
    client: Any = Losing(answers=False)
    try:
        with pytest.raises(KafkaException, match="not taken within") as added:
            add_offsets(client, OFFSETS, None, 0.0)
    finally:
        client.answers.set()
    error = added.value.args[0]
    assert (error.code(), error.retriable(), error.txn_requires_abort()) == (KafkaError._TIMED_OUT, True, True)


def test_what_kafka_says_is_raised_and_keeps_no_client() -> None:
    """A producer that something still holds would be fenced in the midst of things, and say so for ever."""
    client: Any = Losing(answers=True, raises=KafkaError._FENCED)
    kept = weakref.ref(client)
    gc.disable()
    try:
        with pytest.raises(KafkaException) as raised:
            add_offsets(client, OFFSETS, None, 3.0)
        assert raised.value.args[0].code() == KafkaError._FENCED
        del raised, client
        for thread in threading.enumerate():
            if thread.name == "checkback-call":
                thread.join(60)
        assert kept() is None
    finally:
        gc.enable()


class Asking:
    """Asks for two topics, of no Kafka; what it asks is in its frame, as the answers are."""

    def __init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})

    def ask(self) -> None:
        topics = [NewTopic("orders", 1, 1), NewTopic("invoices", 1, 1)]
        for answer in self.admin.create_topics(topics, request_timeout=0.1).values():
            result_of(answer)


def test_an_answer_that_is_an_error_keeps_no_client() -> None:
    asking = Asking()
    kept = weakref.ref(asking)
    gc.disable()
    try:
        with pytest.raises(KafkaException) as raised:
            asking.ask()
        assert raised.value.args[0].code() == KafkaError._TIMED_OUT
        del raised, asking
        assert kept() is None
    finally:
        gc.enable()
