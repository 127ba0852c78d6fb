"""The whole way: producer, Kafka, the query, the check service, a read_committed consumer."""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback import (
    CheckEndpoint,
    CheckRequest,
    HalfMessage,
    LocalTransactionState,
    Message,
    TransactionOptions,
    TransactionProducer,
)
from checkback.local import LocalKafka
from checkback.operations.parked import ParkedMessages
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Action
from tests.end_to_end.job import running
from tests.place import Place, fresh_place, wait_until

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Shop:
    """Answers as it is told; remembers what it was asked."""

    def __init__(self, checked: LocalTransactionState = UNKNOWN) -> None:
        self.checked = checked
        self.requests: list[CheckRequest] = []

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        return LocalTransactionState(arg)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.requests.append(request)
        return self.checked


LONG = TransactionOptions(check_immunity_ms=3_600_000)
"""Of a transaction that stays open while other tests run."""


class Running:
    """The job that runs for all tests here, and one test's part of it: a producer group, a real topic, its counts."""

    def __init__(self, place: Place, counts: Counter[str]) -> None:
        self.group = f"shop-{uuid.uuid4().hex[:12]}"
        self.place = replace(place, real_topic=f"{place.topics.prefix}{self.group}")
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.create_one(self.place.real_topic, 4)
        self._counts = counts
        self._before = counts.copy()

    def producer(self, listener: Any = None) -> TransactionProducer:
        return TransactionProducer(
            self.place.bootstrap_servers, self.group, listener or Shop(), topics=self.place.topics
        )

    def endpoint(self, shop: "Shop") -> CheckEndpoint:
        return CheckEndpoint(self.place.bootstrap_servers, self.group, shop, topics=self.place.topics)

    def until(self, **counts: int) -> None:
        """Wait until so many outcomes have come since the test began."""
        wait_until(lambda: all(self._counts[name] - self._before[name] >= least for name, least in counts.items()))

    def read(self, topic: str = "", isolation_level: str = "read_committed") -> list[Any]:
        """The records of the real topic, or of this test's transactions in another one."""
        records = self.place.read(topic or self.place.real_topic, isolation_level)
        return [r for r in records if not topic or ("cb-group", self.group.encode()) in r.headers]


@pytest.fixture(scope="module")
def _job(broker: LocalKafka, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    times = {"timeout": "500ms", "check_interval": "500ms", "timer_slack": "100ms"}
    with (
        fresh_place(broker.bootstrap_servers, tmp_path_factory.mktemp("job")) as place,
        running(place, spark, transactions=times) as counts,
    ):
        yield place, counts


@pytest.fixture
def job(_job: tuple[Place, Counter[str]]) -> Running:
    return Running(*_job)


def test_committed_messages_arrive_as_they_were_and_no_other(job: Running) -> None:
    headers = [("b", b"\x00\xff"), ("a", b""), ("b", b"2")]
    topic = job.place.real_topic
    with job.producer() as producer:
        whole = producer.send_in_transaction(Message(topic, b"\x00whole", b"key", headers=headers), arg=COMMIT)
        tombstone = producer.send_in_transaction(Message(topic, None, b"gone"), arg=COMMIT)
        keyless = producer.send_in_transaction(Message(topic, b"keyless", partition=3), arg=COMMIT)
        producer.send_in_transaction(Message(topic, b"rolled back"), arg=ROLLBACK)
        producer.prepare(Message(topic, b"open"), options=LONG)
        producer.flush()
        job.until(committed=3, rolled_back=1, half=5)
    for isolation_level in ("read_committed", "read_uncommitted"):
        records = job.read(isolation_level=isolation_level)
        assert {record.key: (record.value, record.headers) for record in records} == {
            b"key": (b"\x00whole", [("cb-id", whole.transaction_id.encode()), *headers]),
            b"gone": (None, [("cb-id", tombstone.transaction_id.encode())]),
            None: (b"keyless", [("cb-id", keyless.transaction_id.encode())]),
        }
    assert [record.partition for record in records if record.key is None] == [3]


def test_a_crashed_producers_transaction_is_decided_by_check_back(job: Running) -> None:
    shop = Shop(COMMIT)
    with job.endpoint(shop), job.producer() as producer:
        message = producer.prepare(Message(job.place.real_topic, b"value", b"key", headers=[("h", b"1")]))
        job.until(committed=1)
    assert [record.value for record in job.read()] == [b"value"]
    (request,) = shop.requests
    assert (request.transaction_id, request.half) == (message.transaction_id, message.half)
    assert (request.key, request.value, list(request.headers)) == (b"key", b"value", [("h", b"1")])
    assert (request.attempt, request.check_max) == (1, 15)
    status = [record for record in job.place.read(job.place.topics.status) if record.key == str(message.half).encode()]
    assert [record.value is None for record in status] == [False, True]


def test_checked_in_vain_it_is_parked_until_an_operator_resumes_it(job: Running) -> None:
    shop = Shop(UNKNOWN)
    with job.endpoint(shop), job.producer() as producer:
        message = Message(job.place.real_topic, b"value", b"key", headers=[("h", b"1")])
        producer.prepare(message, options=TransactionOptions(check_immunity_ms=500, check_max=2))
        job.until(parked=1)
        assert [request.attempt for request in shop.requests] == [1, 2]
        (parked,) = job.read(job.place.topics.parked)
        assert (parked.key, parked.value) == (b"key", b"value")
        assert parked.headers[-1] == ("h", b"1")
        assert b"check_max" in dict(parked.headers)["cb-reason"]
        assert job.read(isolation_level="read_uncommitted") == []
        shop.checked = COMMIT
        with ParkedMessages(job.place.bootstrap_servers, job.place.topics) as waiting:
            waiting.end([one for one in waiting.read() if one.group == job.group], Action.RESUME)
        job.until(committed=1)
    assert [request.attempt for request in shop.requests] == [1, 2, 1]
    assert [record.value for record in job.read()] == [b"value"]


def test_records_that_break_the_protocol_go_whole_to_rejected(job: Running) -> None:
    broken = [("cb-id", b"tx"), ("mine", b"\xff")]
    topics = job.place.topics
    with job.place.producer() as kafka, job.producer() as producer:
        half = kafka.send(topics.half, b"value", b"key", headers=broken, partition=1).get(120)
        kafka.send(topics.op, b"junk", b"k", headers=[("\u00fc", b"1")], partition=0).get(120)
        producer.send_in_transaction(Message(job.place.real_topic, b"good"), arg=COMMIT)
        producer.flush()
        job.until(rejected=2, committed=1)
    rejected = {record.key: record for record in job.place.read(topics.rejected)}
    assert rejected[b"key"].value == b"value"
    assert rejected[b"key"].headers == [
        ("cb-reason", b"cb-group is missing"),
        ("cb-from", f"{topics.half}:1:{half.offset}".encode()),
        *broken,
    ]
    assert rejected[b"k"].headers[-1] == ("\u00fc", b"1")
    assert [record.value for record in job.read()] == [b"good"]


def test_several_messages_are_delivered_together_in_their_order_or_not_at_all(job: Running) -> None:
    topic, missing = job.place.real_topic, f"{job.place.real_topic}-missing"
    with job.producer() as producer:
        transaction = producer.begin()
        for number in range(20):
            transaction.add(Message(topic, b"%d" % number, b"key", headers=[("n", b"%d" % number)]))
        transaction.add(Message(topic, None, b"gone", partition=1)).add(Message(missing, b"nowhere", b"k"))
        sent = transaction.send(arg=COMMIT)
        producer.begin().add(Message(topic, b"rolled back")).add(Message(topic, b"too")).send(arg=ROLLBACK)
        producer.begin(options=LONG).add(Message(topic, b"open")).prepare()
        producer.flush()
        # the one for the missing topic is held, and taken in again
        job.until(rolled_back=1, half=3, retried=1)
    records = job.read(isolation_level="read_uncommitted")
    keyed = [record for record in records if record.key == b"key"]
    assert [record.value for record in keyed] == [b"%d" % number for number in range(20)]
    assert len({record.partition for record in keyed}) == 1
    assert [record.headers for record in keyed[:2]] == [
        [("cb-id", f"{sent.transaction_id}#{number + 1}".encode()), ("n", b"%d" % number)] for number in range(2)
    ]
    (tombstone,) = [record for record in records if record.key != b"key"]
    assert (tombstone.key, tombstone.value, tombstone.partition) == (b"gone", None, 1)
    nowhere = next(record for record in job.read(job.place.topics.half) if "cb-held" in dict(record.headers))
    assert (nowhere.key, nowhere.value) == (b"k", b"nowhere")
    assert dict(nowhere.headers)["cb-topic"] == missing.encode()
    with TopicAdministration(job.place.bootstrap_servers) as administration:
        administration.create_one(missing, 1)  # otherwise it is retried, and counted, while other tests run
    wait_until(lambda: [record.value for record in job.place.read(missing)] == [b"nowhere"])


def test_one_check_answers_for_all_messages_of_a_transaction(job: Running) -> None:
    shop, topic = Shop(COMMIT), job.place.real_topic
    with job.endpoint(shop), job.producer() as producer:
        transaction = producer.begin().add(Message(topic, b"1", b"k", headers=[("h", b"1")])).add(Message(topic, b"2"))
        message = transaction.prepare()
        job.until(committed=1)
    assert sorted(record.value for record in job.read()) == [b"1", b"2"]
    (request,) = shop.requests
    assert (request.transaction_id, request.topic, request.value) == (message.transaction_id, topic, None)
    assert request.messages == (Message(topic, b"1", b"k", [("h", b"1")]), Message(topic, b"2", None, []))


def test_an_operator_resumes_commits_and_rolls_back_what_was_parked(job: Running) -> None:
    shop, topic = Shop(COMMIT), job.place.real_topic
    parked_at_once = TransactionOptions(check_immunity_ms=500, check_max=0)
    with job.producer() as producer, ParkedMessages(job.place.bootstrap_servers, job.place.topics) as parked:
        names = [producer.prepare(Message(topic, b"%d" % n), options=parked_at_once).transaction_id for n in range(2)]
        again = producer.prepare(Message(topic, b"again"), options=TransactionOptions(500, 1)).transaction_id
        job.until(parked=2)
        listed = {message.transaction_id: message for message in parked.read()}
        parked.end([listed[names[0]]], Action.COMMIT, "by hand")
        parked.end([listed[names[1]]], Action.ROLLBACK)
        job.until(committed=1, rolled_back=1)
        parked_ids = {message.transaction_id for message in parked.read(ended=True)}
        assert again not in parked_ids, "the third waits for an endpoint"
        with job.endpoint(shop):
            job.until(committed=2)
    # twice, if the job's next check comes during the one that waited for the new endpoint
    assert {request.transaction_id for request in shop.requests} == {again}
    assert sorted(record.value for record in job.read()) == [b"0", b"again"]


def test_a_message_without_a_local_transaction_is_one_record_and_delivered_at_its_time(job: Running) -> None:
    tomorrow = time.time_ns() // 1_000_000 + 86_400_000
    with job.producer() as producer:
        now = producer.send(Message(job.place.real_topic, b"now", b"k", [("h", b"1")]))
        producer.send(Message(job.place.real_topic, b"later"), options=TransactionOptions(deliver_at_ms=tomorrow))
        job.until(committed=1, delayed=1)
    (record,) = job.read()
    assert (record.value, record.key) == (b"now", b"k")
    assert record.headers == [("cb-id", now.transaction_id.encode()), ("h", b"1")]
    assert job.read(job.place.topics.op) == job.read(job.place.topics.check) == []
