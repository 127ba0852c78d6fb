"""The whole way: producer, Kafka, the query, the check service, a read_committed consumer."""

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback import (
    CallableListener,
    CheckEndpoint,
    CheckRequest,
    HalfMessage,
    LocalTransactionState,
    Message,
    TransactionOptions,
    TransactionProducer,
)
from checkback.exceptions import CheckpointMismatchError, ConfigurationError
from checkback.operations.parked import ParkedMessages
from checkback.wire.protocol import Action
from streaming import TransactionJob
from tests.end_to_end.job import running
from tests.place import Place, wait_until

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


def test_committed_messages_arrive_as_they_were_and_no_other(place: Place, spark: SparkSession) -> None:
    headers = [("b", b"\x00\xff"), ("a", b""), ("b", b"2")]
    with TransactionProducer(place.bootstrap_servers, "shop", Shop(), topics=place.topics) as producer:
        whole = producer.send_in_transaction(
            Message(place.real_topic, b"\x00whole", b"key", headers=headers), arg=COMMIT
        )
        tombstone = producer.send_in_transaction(Message(place.real_topic, None, b"gone"), arg=COMMIT)
        keyless = producer.send_in_transaction(Message(place.real_topic, b"keyless", partition=3), arg=COMMIT)
        producer.send_in_transaction(Message(place.real_topic, b"rolled back"), arg=ROLLBACK)
        producer.prepare(Message(place.real_topic, b"open"))
        producer.flush()
        with running(place, spark, transactions={"timeout": "1h"}) as counts:
            wait_until(lambda: counts["committed"] == 3 and counts["rolled_back"] == 1 and counts["half"] == 5)
    for isolation_level in ("read_committed", "read_uncommitted"):
        records = place.read(place.real_topic, isolation_level)
        assert {record.key: (record.value, record.headers) for record in records} == {
            b"key": (b"\x00whole", [("cb-id", whole.transaction_id.encode()), *headers]),
            b"gone": (None, [("cb-id", tombstone.transaction_id.encode())]),
            None: (b"keyless", [("cb-id", keyless.transaction_id.encode())]),
        }
    assert [record.partition for record in records if record.key is None] == [3]


def test_a_crashed_producers_transaction_is_decided_by_check_back(place: Place, spark: SparkSession) -> None:
    shop = Shop(COMMIT)
    with (
        running(place, spark) as counts,
        CheckEndpoint(place.bootstrap_servers, "shop", shop, topics=place.topics),
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
    ):
        message = producer.prepare(Message(place.real_topic, b"value", b"key", headers=[("h", b"1")]))
        wait_until(lambda: counts["committed"] == 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]
    (request,) = shop.requests
    assert (request.transaction_id, request.half) == (message.transaction_id, message.half)
    assert (request.key, request.value, list(request.headers)) == (b"key", b"value", [("h", b"1")])
    assert (request.attempt, request.check_max) == (1, 15)
    status = place.read(place.topics.status)
    assert [record.value is None for record in status] == [False, True]


def test_checked_in_vain_it_is_parked(place: Place, spark: SparkSession) -> None:
    shop = Shop(UNKNOWN)
    times = {"timeout": "500ms", "check_interval": "500ms", "check_max": 2}
    with (
        running(place, spark, transactions=times) as counts,
        CheckEndpoint(place.bootstrap_servers, "shop", shop, topics=place.topics),
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
    ):
        producer.prepare(Message(place.real_topic, b"value", b"key", headers=[("h", b"1")]))
        wait_until(lambda: counts["parked"] == 1)
    assert [request.attempt for request in shop.requests] == [1, 2]
    (parked,) = place.read(place.topics.parked)
    assert (parked.key, parked.value) == (b"key", b"value")
    assert parked.headers[-1] == ("h", b"1")
    assert b"check_max" in dict(parked.headers)["cb-reason"]
    assert place.read(place.real_topic, "read_uncommitted") == []


def test_records_that_break_the_protocol_go_whole_to_rejected(place: Place, spark: SparkSession) -> None:
    broken = [("cb-id", b"tx"), ("mine", b"\xff")]
    with (
        place.producer() as kafka,
        TransactionProducer(place.bootstrap_servers, "shop", Shop(), topics=place.topics) as producer,
    ):
        kafka.send(place.topics.half, b"value", b"key", headers=broken, partition=1).get(120)
        kafka.send(place.topics.op, b"junk", b"k", headers=[("\u00fc", b"1")], partition=0).get(120)
        producer.send_in_transaction(Message(place.real_topic, b"good"), arg=COMMIT)
        producer.flush()
        with running(place, spark) as counts:
            wait_until(lambda: counts["rejected"] == 2 and counts["committed"] == 1)
    rejected = {record.key: record for record in place.read(place.topics.rejected)}
    assert rejected[b"key"].value == b"value"
    assert rejected[b"key"].headers == [
        ("cb-reason", b"cb-group is missing"),
        ("cb-from", f"{place.topics.half}:1:0".encode()),
        *broken,
    ]
    assert rejected[b"k"].headers[-1] == ("\u00fc", b"1")
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]


def test_a_stopped_job_goes_on_where_it_was(place: Place, spark: SparkSession) -> None:
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        messages = [producer.prepare(Message(place.real_topic, b"%d" % number)) for number in range(10)]
        with running(place, spark, transactions={"timeout": "1h"}) as counts:
            producer.commit(messages[0])
            wait_until(lambda: counts["committed"] == 1)
        for message in messages[1:]:
            producer.commit(message)
        producer.flush()
        with running(place, spark, transactions={"timeout": "1h"}) as counts:
            wait_until(lambda: counts["committed"] == 9)
    assert sorted(record.value for record in place.read(place.real_topic)) == [b"%d" % n for n in range(10)]


def test_a_job_that_does_not_fit_its_checkpoint_does_not_start(place: Place, spark: SparkSession) -> None:
    with running(place, spark):
        pass
    with (
        pytest.raises(CheckpointMismatchError, match="segment_size = 4096, now it is 64"),
        running(place, spark, transactions={"segment_size": 64}),
    ):
        pass


def test_missing_topics_are_named(place: Place, spark: SparkSession) -> None:
    with (
        pytest.raises(ConfigurationError, match="checkback topics create"),
        running(place, spark, kafka={"topic_prefix": "nothing."}),
    ):
        pass


def test_stopping_is_quick_and_leaves_nothing_half_done(place: Place, spark: SparkSession) -> None:
    job = TransactionJob(place.settings(), None, spark).start()
    started = time.monotonic()
    job.stop()
    assert time.monotonic() - started < 30
    assert all(query.name != place.topics.prefix.rstrip(".") for query in spark.streams.active)


def test_a_listener_of_two_functions(place: Place) -> None:
    listener = CallableListener(lambda _message, arg: arg, lambda _request: UNKNOWN)
    with TransactionProducer(place.bootstrap_servers, "shop", listener, topics=place.topics) as producer:
        assert producer.send_in_transaction(Message(place.real_topic, b"v"), arg=COMMIT).state is COMMIT


def test_several_messages_are_delivered_together_in_their_order_or_not_at_all(
    place: Place, spark: SparkSession
) -> None:
    with TransactionProducer(place.bootstrap_servers, "shop", Shop(), topics=place.topics) as producer:
        transaction = producer.begin()
        for number in range(20):
            transaction.add(Message(place.real_topic, b"%d" % number, b"key", headers=[("n", b"%d" % number)]))
        transaction.add(Message(place.real_topic, None, b"gone", partition=1)).add(
            Message("no-such-topic", b"nowhere", b"k")
        )
        sent = transaction.send(arg=COMMIT)
        producer.begin().add(Message(place.real_topic, b"rolled back")).add(Message(place.real_topic, b"too")).send(
            arg=ROLLBACK
        )
        producer.begin().add(Message(place.real_topic, b"open")).prepare()
        producer.flush()
        with running(place, spark, transactions={"timeout": "1h"}) as counts:
            # the one for the missing topic is held, and taken in again
            wait_until(lambda: counts["rolled_back"] == 1 and counts["half"] == 3 and counts["retried"] >= 1)
    records = place.read(place.real_topic, "read_uncommitted")
    keyed = [record for record in records if record.key == b"key"]
    assert [record.value for record in keyed] == [b"%d" % number for number in range(20)]
    assert len({record.partition for record in keyed}) == 1
    assert [record.headers for record in keyed[:2]] == [
        [("cb-id", f"{sent.transaction_id}#{number + 1}".encode()), ("n", b"%d" % number)] for number in range(2)
    ]
    (tombstone,) = [record for record in records if record.key != b"key"]
    assert (tombstone.key, tombstone.value, tombstone.partition) == (b"gone", None, 1)
    nowhere = next(record for record in place.read(place.topics.half) if "cb-held" in dict(record.headers))
    assert (nowhere.key, nowhere.value) == (b"k", b"nowhere")
    assert dict(nowhere.headers)["cb-topic"] == b"no-such-topic"


def test_one_check_answers_for_all_messages_of_a_transaction(place: Place, spark: SparkSession) -> None:
    shop = Shop(COMMIT)
    with (
        running(place, spark) as counts,
        CheckEndpoint(place.bootstrap_servers, "shop", shop, topics=place.topics),
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
    ):
        message = (
            producer.begin()
            .add(Message(place.real_topic, b"1", b"k", headers=[("h", b"1")]))
            .add(Message(place.real_topic, b"2"))
            .prepare()
        )
        wait_until(lambda: counts["committed"] == 1)
    assert sorted(record.value for record in place.read(place.real_topic)) == [b"1", b"2"]
    (request,) = shop.requests
    assert (request.transaction_id, request.topic, request.value) == (message.transaction_id, place.real_topic, None)
    assert request.messages == (
        Message(place.real_topic, b"1", b"k", [("h", b"1")]),
        Message(place.real_topic, b"2", None, []),
    )


def test_a_delayed_message_is_delivered_at_its_time_also_after_a_restart(place: Place, spark: SparkSession) -> None:
    at_ms = int(time.time() * 1000) + 25_000
    options = TransactionOptions(deliver_at_ms=at_ms)
    with TransactionProducer(place.bootstrap_servers, "shop", Shop(), topics=place.topics) as producer:
        producer.send_in_transaction(Message(place.real_topic, b"later"), arg=COMMIT, options=options)
        producer.send_in_transaction(Message(place.real_topic, b"now"), arg=COMMIT)
        producer.flush()
        with running(place, spark) as counts:
            wait_until(lambda: counts["delayed"] == 1 and counts["committed"] == 1)
        assert [record.value for record in place.read(place.real_topic)] == [b"now"]
        with running(place, spark) as counts:
            wait_until(lambda: counts["committed"] == 1)
    (later,) = [record for record in place.read(place.real_topic) if record.value == b"later"]
    assert at_ms <= later.timestamp, "the broker's clock is this machine's"


def test_an_operator_resumes_commits_and_rolls_back_what_was_parked(place: Place, spark: SparkSession) -> None:
    shop = Shop(COMMIT)
    with (
        running(place, spark, transactions={"timeout": "500ms", "check_max": 0}) as counts,
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
        ParkedMessages(place.bootstrap_servers, place.topics) as parked,
    ):
        options = TransactionOptions(check_max=0)
        names = [
            producer.prepare(Message(place.real_topic, b"%d" % n), options=options).transaction_id for n in range(2)
        ]
        again = producer.prepare(Message(place.real_topic, b"again"), options=TransactionOptions(500, 1)).transaction_id
        wait_until(lambda: counts["parked"] >= 2)
        listed = {message.transaction_id: message for message in parked.read()}
        parked.end([listed[names[0]]], Action.COMMIT, "by hand")
        parked.end([listed[names[1]]], Action.ROLLBACK)
        wait_until(lambda: counts["committed"] == 1 and counts["rolled_back"] == 1)
        assert counts["parked"] == 2, "the third waits for somebody to ask"
        with CheckEndpoint(place.bootstrap_servers, "shop", shop, topics=place.topics):
            wait_until(lambda: counts["committed"] == 2)
    # twice, where the job's next check comes while the one that was kept for the new endpoint is being asked
    assert {request.transaction_id for request in shop.requests} == {again}
    assert sorted(record.value for record in place.read(place.real_topic)) == [b"0", b"again"]


def test_an_operator_resumes_a_parked_message(place: Place, spark: SparkSession) -> None:
    shop = Shop(UNKNOWN)
    with (
        running(place, spark, transactions={"timeout": "500ms", "check_interval": "500ms", "check_max": 1}) as counts,
        CheckEndpoint(place.bootstrap_servers, "shop", shop, topics=place.topics),
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
        ParkedMessages(place.bootstrap_servers, place.topics) as parked,
    ):
        producer.prepare(Message(place.real_topic, b"value"))
        wait_until(lambda: counts["parked"] == 1)
        shop.checked = COMMIT
        parked.end(parked.read(), Action.RESUME)
        wait_until(lambda: counts["committed"] == 1)
    assert [request.attempt for request in shop.requests] == [1, 1]
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]
