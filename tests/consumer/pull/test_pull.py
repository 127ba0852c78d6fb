"""Pulling from a real Kafka; each status by name."""

import re
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPartition

from checkback import ConfigurationError
from checkback.consumer import PullConsumer, PullResult, PullStatus
from checkback.consumer.listener import TopicPartition
from checkback.consumer.pull.client import LogRead, PullClient
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.bounds import Bounds
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from tests.place import wait_until

WAIT_MS = 20_000


class Log:
    """A topic of two partitions, and those who write to it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = f"pull-{uuid.uuid4().hex[:8]}"
        with TopicAdministration(bootstrap_servers) as administration:
            administration.create_one(self.topic, 2)
            administration.wait_for([self.topic])

    def write(self, *messages: tuple[bytes, str | None], partition: int = 0) -> None:
        """Messages with a tag each."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for value, tag in messages:
            headers: Any = [] if tag is None else [("tags", tag.encode())]
            producer.produce(self.topic, value, b"key", partition, headers=headers)
        assert producer.flush(120) == 0

    def begin(self, value: bytes) -> Producer:
        """Write within a transaction, which is left to whoever asks."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "transactional.id": uuid.uuid4().hex, "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic, value, partition=0)
        assert producer.flush(120) == 0
        return producer

    def delete_before(self, offset: int) -> None:
        """What retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        admin.delete_records({KafkaPartition(self.topic, 0): offset})
        admin.close()

    def delete(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        admin.delete_topics([self.topic])
        admin.close()


@pytest.fixture
def log(broker: LocalKafka) -> Log:
    return Log(broker.bootstrap_servers)


@pytest.fixture
def consumer(log: Log) -> Iterator[PullConsumer]:
    with PullConsumer(log.bootstrap_servers) as one:
        yield one


def values(result: PullResult) -> list[bytes | None]:
    return [message.value for message in result.messages]


A, B, C = (b"a", "paid"), (b"b", "refunded"), (b"c", None)


def test_found(log: Log, consumer: PullConsumer) -> None:
    log.write(A, B, C)
    result = consumer.pull(log.topic, 0, 0, 2)
    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (PullStatus.FOUND, 2, 0, 3)
    assert values(result) == [b"a", b"b"]
    message = result.messages[0]
    assert (message.topic, message.partition, message.offset, message.key) == (log.topic, 0, 0, b"key")
    assert list(message.headers) == [("tags", b"paid")]
    assert message.timestamp_ms > 1_600_000_000_000
    assert values(consumer.pull(log.topic, 0, 2, 2)) == [b"c"]
    assert values(consumer.pull(log.topic, 0, 1, 1)) == [b"b"]
    assert list(consumer.partitions(log.topic)) == [0, 1]


def test_no_matched_message(log: Log, consumer: PullConsumer) -> None:
    log.write(A, B, C)
    result = consumer.pull(log.topic, 0, 0, tags="stolen")
    assert (result.status, result.next_offset, result.messages) == (PullStatus.NO_MATCHED_MESSAGE, 3, ())
    assert values(consumer.pull(log.topic, 0, 0, tags="paid || refunded")) == [b"a", b"b"]
    assert values(consumer.pull(log.topic, 0, 0, tags="refunded")) == [b"b"]


def test_no_message_in_queue(log: Log, consumer: PullConsumer) -> None:
    assert consumer.pull(log.topic, 1, 0) == PullResult(PullStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    assert consumer.pull(log.topic, 1, 7, wait_ms=WAIT_MS) == PullResult(PullStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


def test_no_matched_logic_queue(log: Log, consumer: PullConsumer) -> None:
    nothing = PullResult(PullStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
    assert consumer.pull("no-such-topic", 0, 7, wait_ms=WAIT_MS) == nothing
    assert consumer.pull(log.topic, 2, 7) == nothing
    assert list(consumer.partitions("no-such-topic")) == []


def test_no_matched_logic_queue_after_it_was_deleted(log: Log, consumer: PullConsumer) -> None:
    log.write(A)
    assert consumer.pull(log.topic, 0, 0).status is PullStatus.FOUND
    log.delete()
    wait_until(lambda: consumer.pull(log.topic, 0, 1).status is PullStatus.NO_MATCHED_LOGIC_QUEUE, "the deletion")


def test_offset_too_small(log: Log, consumer: PullConsumer) -> None:
    log.write(A, B, C)
    log.delete_before(2)
    assert consumer.pull(log.topic, 0, 1) == PullResult(PullStatus.OFFSET_TOO_SMALL, 2, 2, 3)
    assert values(consumer.pull(log.topic, 0, 2)) == [b"c"]
    log.delete_before(3)
    assert consumer.pull(log.topic, 0, 2) == PullResult(PullStatus.OFFSET_TOO_SMALL, 3, 3, 3)


def test_offset_overflow_one(log: Log, consumer: PullConsumer) -> None:
    log.write(A)
    assert consumer.pull(log.topic, 0, 1) == PullResult(PullStatus.OFFSET_OVERFLOW_ONE, 1, 0, 1)
    assert consumer.pull(log.topic, 0, 1, wait_ms=300) == PullResult(PullStatus.OFFSET_OVERFLOW_ONE, 1, 0, 1)


def test_offset_overflow_badly(log: Log, consumer: PullConsumer) -> None:
    log.write(A, B, C)
    assert consumer.pull(log.topic, 0, 9, wait_ms=WAIT_MS) == PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, 0, 0, 3)
    log.delete_before(1)
    assert consumer.pull(log.topic, 0, 9, wait_ms=WAIT_MS) == PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, 3, 1, 3)


def test_offset_found_null(log: Log, consumer: PullConsumer) -> None:
    log.write(A)
    log.begin(b"never").abort_transaction(30)
    # Kafka answers before the transaction's end is in the log
    assert consumer.pull(log.topic, 0, 1, wait_ms=WAIT_MS) == PullResult(PullStatus.OFFSET_FOUND_NULL, 3, 0, 3)
    assert consumer.pull(log.topic, 0, 1) == PullResult(PullStatus.OFFSET_FOUND_NULL, 3, 0, 3)
    log.write(B)
    assert values(consumer.pull(log.topic, 0, 1)) == [b"b"]


class Deleting:
    """A client whose log is deleted between the question for its bounds and the read."""

    def __init__(self, client: PullClient, log: Log, before: int) -> None:
        self.client, self.log, self.before = client, log, before

    def bounds(self, place: TopicPartition) -> Bounds | None:
        return self.client.bounds(place)

    def read(self, place: TopicPartition, offset: int, most: int, seconds: float) -> LogRead:
        self.log.delete_before(self.before)
        return self.client.read(place, offset, most, seconds)

    def partitions(self, topic: str) -> Sequence[int]:
        return self.client.partitions(topic)

    def close(self) -> None:
        self.client.close()


def test_message_was_removing(log: Log) -> None:
    log.write(A, B, C)
    deleting: Any = Deleting(PullClient(log.bootstrap_servers, {}), log, 2)
    with PullConsumer(log.bootstrap_servers, client=deleting) as consumer:
        assert consumer.pull(log.topic, 0, 1) == PullResult(PullStatus.MESSAGE_WAS_REMOVING, 2, 2, 3)
        assert values(consumer.pull(log.topic, 0, 2)) == [b"c"]


def test_a_pull_waits_for_a_message_and_no_longer(log: Log, consumer: PullConsumer) -> None:
    for offset, message in enumerate((A, B)):
        writing = threading.Timer(0.3, log.write, [message])
        writing.start()
        result = consumer.pull(log.topic, 0, offset, wait_ms=WAIT_MS)
        assert (result.status, values(result), result.max_offset) == (PullStatus.FOUND, [message[0]], offset + 1)
        writing.join()


def test_the_maximum_is_the_last_stable_offset(log: Log, consumer: PullConsumer) -> None:
    log.write(A)
    producer = log.begin(b"perhaps")
    assert consumer.pull(log.topic, 0, 1) == PullResult(PullStatus.OFFSET_OVERFLOW_ONE, 1, 0, 1)
    producer.commit_transaction(30)
    result = consumer.pull(log.topic, 0, 1, wait_ms=WAIT_MS)
    assert (result.status, values(result)) == (PullStatus.FOUND, [b"perhaps"])


def test_partitions_in_turn_give_all_messages_in_order(log: Log, consumer: PullConsumer) -> None:
    many = 4_000  # more than a client keeps of a partition whose turn it is not
    for partition in (0, 1):
        log.write(*((b"%d" % number, None) for number in range(many)), partition=partition)
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    following = {0: 0, 1: 0}
    for turn in range(2 * many):
        partition = int(turn % 10 == 9)
        result = consumer.pull(log.topic, partition, following[partition], 500)
        following[partition] = result.next_offset
        found[partition] += values(result)
        if following == {0: many, 1: many}:
            break
    assert found == {one: [b"%d" % number for number in range(many)] for one in (0, 1)}


def test_arguments_that_make_no_sense_are_refused(log: Log, consumer: PullConsumer) -> None:
    log.write(A)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("at least 1 and 0", {"max": 0}),
        ("at least 1 and 0", {"wait_ms": -1}),
        *(("a whole number", {"offset": offset}) for offset in (-1, 0.5, 2**63, None, "0")),
        *(("a whole number", {"partition": partition}) for partition in (-1, 0.5, 2**31)),
        *(("not a topic's name", {"topic": topic}) for topic in ("", "shop orders", "x" * 250, None)),
    ]
    for said, one in wrong:
        with pytest.raises(ConfigurationError, match=said):
            consumer.pull(**{"topic": log.topic, "partition": 0, "offset": 0, **one})
    assert consumer.pull(log.topic, 0, 0).status is PullStatus.FOUND
    with pytest.raises(ConfigurationError, match="not a topic's name"):
        consumer.partitions("shop orders")
    with pytest.raises(ConfigurationError, match="tag expression"):
        consumer.pull(log.topic, 0, 0, tags="a || ")


def test_no_kafka_is_said() -> None:
    with pytest.raises(KafkaUnreachableError, match="No Kafka answers at localhost:1"):
        PullConsumer("localhost:1")


def test_the_pages_last_messages(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    """The second block of docs/pull-consumer.md."""
    orders = [b"order %02d" % number for number in range(15)]  # which no topic's name nor time contains
    log.write(*((value, None) for value in orders))
    page = (Path(__file__).parents[3] / "docs" / "pull-consumer.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1]
    block = block.replace("localhost:9092", log.bootstrap_servers).replace("shop.orders", log.topic)
    exec(compile(block, "docs/pull-consumer.md", "exec"), {"PullConsumer": PullConsumer})  # noqa: S102  (that is the test)
    said = capsys.readouterr().out
    assert [value in said.encode() for value in orders] == [False] * 5 + [True] * 10
