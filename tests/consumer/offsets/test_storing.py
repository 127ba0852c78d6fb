"""Storing: librdkafka may lose a call, and nobody waits for it for ever."""

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.consumer.clients import group_client
from checkback.consumer.clients.base import KafkaAwayError
from checkback.consumer.clients.group_client import GroupClient
from checkback.consumer.clients.sender import Sender
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.kafka.librdkafka import transactional
from checkback.kafka.librdkafka.transactional import Transactional

OFFSETS = {TopicPartition("orders", 0): Stored(1)}


class Losing:
    """librdkafka's consumer, as far as it stores."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.raises: Exception | None = None
        self.commits = 0

    def commit(self, **_: Any) -> list[Any]:
        self.commits += 1
        assert self.answers.wait(60)
        if self.raises:
            raise self.raises
        return []


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    monkeypatch.setattr(group_client, "STORE_SECONDS", 0.05)
    return Losing()


def client_of(losing: Losing) -> GroupClient:
    client = GroupClient.__new__(GroupClient)
    stands_in: Any = losing
    client._consumer, client._storing, client._lost_at = stands_in, None, 0.0
    return client


def test_nobody_waits_for_a_commit_that_is_lost_and_none_overtakes_it(losing: Losing) -> None:
    client = client_of(losing)
    with pytest.raises(KafkaAwayError, match="not stored within"):
        client.store(OFFSETS)
    with pytest.raises(KafkaAwayError, match="still under way"):
        client.store(OFFSETS)
    assert losing.commits == 1
    losing.answers.set()
    assert client._storing is not None
    client._storing.result(60)
    client.store(OFFSETS)
    assert losing.commits == 2


def test_one_that_never_comes_back_is_taken_as_lost_and_the_next_is_tried(
    losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_client, "LOST_SECONDS", 0.0)
    client = client_of(losing)
    for _ in range(2):
        with pytest.raises(KafkaAwayError, match="not stored within"):
            client.store(OFFSETS)
    assert losing.commits == 2
    losing.answers.set()


def test_what_a_commit_raises_is_ours(losing: Losing) -> None:
    losing.answers.set()
    losing.raises = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(KafkaAwayError):
        client_of(losing).store(OFFSETS)


class LosingProducer:
    """librdkafka's producer, as far as it adds offsets to a transaction."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.raises: Exception | None = None
        self.committed = False

    def begin_transaction(self) -> None:
        """It begins."""

    def flush(self, _seconds: float) -> None:
        """There are no records."""

    def send_offsets_to_transaction(self, *_: Any) -> None:
        assert self.answers.wait(60)
        if self.raises:
            raise self.raises

    def commit_transaction(self, _seconds: float) -> None:
        self.committed = True


def sender_of(losing: LosingProducer) -> Sender:
    sender = Sender.__new__(Sender)
    sender._kafka, sender._partitions = Transactional.__new__(Transactional), {}
    stands_in: Any = losing
    sender._kafka.producer, sender._kafka.spent, sender._kafka._connections = stands_in, False, None
    return sender


def test_nobody_waits_for_a_transactions_offsets_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional, "_LONGER_SECONDS", 0.05 - 10)
    losing = LosingProducer()
    with pytest.raises(KafkaAwayError, match="not taken within"):
        sender_of(losing).send([], OFFSETS, None)
    assert not losing.committed
    losing.answers.set()
    sender_of(losing).send([], OFFSETS, None)
    assert losing.committed


def test_what_adding_them_raises_is_ours() -> None:
    losing = LosingProducer()
    losing.answers.set()
    losing.raises = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    with pytest.raises(KafkaAwayError):
        sender_of(losing).send([], OFFSETS, None)
    assert not losing.committed
