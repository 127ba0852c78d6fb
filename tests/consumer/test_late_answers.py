"""Offsets that Kafka stores long after it was told to: nothing newer may have been stored meanwhile."""

from typing import Any

import pytest

from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt, TopicPartition
from checkback.consumer.clients.base import KafkaAwayError
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.offsets.partitions import Partitions, Subscription
from checkback.consumer.offsets.storing import StoringTurns
from checkback.consumer.tags import TagExpression
from tests.consumer.kafka_fake import FakeClient, FakeKafka
from tests.consumer.waiting import Recording, soon

ORDERS = TopicPartition("orders", 0)
SETTINGS = ConsumerSettings(start_at=StartAt.FIRST, store_interval=0.05, retry_here=0.05, finish_wait=2.0)


def says(message: ReceivedMessage, _: int) -> ConsumeResult:
    return ConsumeResult.LATER if message.value == b"bad" else ConsumeResult.SUCCESS


def consumer(kafka: FakeKafka, seen: Recording) -> PushConsumer:
    return PushConsumer("fake:9092", "points", seen, "orders", settings=SETTINGS, clients=kafka)


def stored(kafka: FakeKafka) -> int:
    return kafka.stored_offsets.get(ORDERS, Stored(-1)).offset


def test_no_transaction_stores_newer_offsets_while_older_ones_may_still_be_stored() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"one")
    seen = Recording(says)
    with consumer(kafka, seen):
        soon(lambda: stored(kafka) == 1)
        kafka.coordinator_hangs = True
        kafka.write("orders", b"two")
        soon(lambda: kafka.under_way)
        kafka.write("orders", b"bad")
        soon(lambda: b"bad" in seen.values)
        kafka.write("orders", b"three")
        soon(lambda: b"three" in seen.values, what="reading on while only the coordinator hangs")
        assert not kafka.written
        kafka.answer_again()
        soon(lambda: kafka.written)
        soon(lambda: stored(kafka) == 4)
    assert seen.values == [b"one", b"two", b"bad", b"three"]
    assert kafka.stored_offsets[ORDERS] == Stored(4)


def test_what_was_not_answered_is_stored_again_though_nothing_has_changed_since() -> None:
    """Or nothing of that partition would be sent back any more."""
    kafka, turns = FakeKafka(), StoringTurns()
    kafka.write("orders", b"one")
    client: Any = FakeClient(kafka)
    partitions = Partitions(client, client, turns, Subscription({"orders": TagExpression.parse("*")}), SETTINGS)
    partitions.assigned([ORDERS])
    partitions.begin()
    partitions.settle()
    assert not turns.unanswered
    partitions.works[ORDERS].stored = Stored(-1)
    kafka.coordinator_hangs = True
    with pytest.raises(KafkaAwayError):
        partitions.store_all()
    partitions.works[ORDERS].stored = partitions.works[ORDERS].to_store()
    assert turns.unanswered == {ORDERS}
    kafka.answer_again()
    assert partitions.store_all()
    assert turns.unanswered == {ORDERS}
    partitions.settle()
    assert not turns.unanswered


def test_a_client_whose_request_may_arrive_late_joins_again_before_a_message_is_sent_back() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"one")
    seen = Recording(says)
    with consumer(kafka, seen):
        soon(lambda: stored(kafka) == 1)
        kafka.outdated = True
        kafka.write("orders", b"two")
        soon(lambda: stored(kafka) == 2)
        assert not kafka.forgotten, "no transaction is at risk"
        kafka.write("orders", b"bad")
        soon(lambda: kafka.written)
        soon(lambda: stored(kafka) == 3)
    assert (kafka.forgotten, len(kafka.written)) == (1, 1)


def test_a_transaction_that_has_waited_for_a_store_goes_before_the_next_one() -> None:
    kafka, turns = FakeKafka(), StoringTurns()
    kafka.write("orders", b"one")
    client: Any = FakeClient(kafka)
    partitions = Partitions(client, client, turns, Subscription({"orders": TagExpression.parse("*")}), SETTINGS)
    partitions.assigned([ORDERS])
    partitions.begin()
    turns.waited_for = True
    assert partitions.store_all(), "what was not acknowledged is stored again"
    partitions.settle()
    assert not partitions.store_all()
    turns.waited_for = False
    assert partitions.store_all()
