"""Whole topics that take nothing: our own, and those that the job may not write to."""

import gc
import json
import uuid
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from checkback.exceptions import OwnTopicError
from checkback.local import LocalKafka
from checkback.wire.checks import CheckRequest
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message
from state import BUNDLE, OutcomeKind
from streaming.batch.headers import packed_headers
from streaming.kafka_sink import beginning
from streaming.kafka_sink.transaction import KafkaTransaction
from tests.place import Place, configure_topic, wait_until
from tests.streaming.outcomes import outcome, rows
from tests.streaming.refusals.scene import LIMIT, Sink, of_size


def test_our_own_topics_take_what_the_half_topic_takes(sink: Sink) -> None:
    place = sink.place
    value = b"x" * 1_048_400
    with place.producer() as producer:
        producer.config["max_request_size"] = 2_000_000
        producer.send(place.topics.half, value).get(120)
    sink.write_all(
        outcome(place.real_topic, transaction_id="refused", key=b"k" * 200, value=value),
        outcome(place.real_topic, kind=OutcomeKind.PARK, transaction_id="parked", value=value, reason="because"),
        outcome(place.real_topic, kind=OutcomeKind.CHECK, transaction_id="checked", key=b"k" * 200, value=value),
        outcome(place.topics.half, kind=OutcomeKind.REJECT_RECORD, value=value, reason="because"),
    )
    assert sink.parked().keys() == {"refused", "parked"}
    for topic in (place.topics.parked, place.topics.check, place.topics.rejected):
        assert set(sink.values(topic)) == {value}


def configure(sink: Sink, topics: Iterable[str], **configuration: str) -> None:
    for topic in topics:
        configure_topic(sink.place.bootstrap_servers, topic, **configuration)


@pytest.mark.parametrize("options", [{}, {"compression.type": "gzip"}])
def test_an_own_topic_gets_the_head_of_what_it_does_not_take_whole(sink: Sink, options: dict[str, str]) -> None:
    sink.options = options
    topics = sink.place.topics
    configure(sink, (topics.parked, topics.rejected, topics.check), max_message_bytes=str(LIMIT))
    noise = b"".join(uuid.uuid4().bytes for _ in range(500))
    report = sink.write_all(
        outcome("t", kind=OutcomeKind.PARK, transaction_id="parked", value=noise, reason="because"),
        outcome("t", kind=OutcomeKind.PARK, transaction_id="small", reason="because"),
        outcome("t", kind=OutcomeKind.CHECK, transaction_id="checked", key=b"k", value=noise),
        outcome(topics.half, kind=OutcomeKind.REJECT_RECORD, value=noise, reason="because"),
        outcome(sink.place.real_topic),
    )
    assert (sink.values(sink.place.real_topic), json.loads(report.counts)) == ([b"v"], {"cut": 3})
    assert sink.parked() == {"parked": "because", "small": "because"}
    for topic in (topics.parked, topics.rejected):
        head = sink.place.read(topic)[0]
        assert head.headers[-1] == ("cb-cut", b"0 8000 %d" % sum(len(n) + len(v) for n, v in head.headers[:-1]))
        assert 200 < len(head.value) < LIMIT
        assert noise.startswith(head.value)
    (check,) = sink.place.read(topics.check)
    request = CheckRequest.from_record(check.value, check.headers)
    assert (request.transaction_id, request.key, request.value, request.left_out > 0) == ("checked", None, None, True)


def test_an_own_topic_that_refuses_stops_the_job_and_says_which_and_what_to_set(sink: Sink) -> None:
    parked = sink.place.topics.parked
    configure(sink, [parked], cleanup_policy="compact")
    undecided = outcome("t", kind=OutcomeKind.PARK, reason="because")
    with pytest.raises(OwnTopicError, match=rf"{parked} refuses .* compacted, .*max\.message\.bytes=100000000"):
        sink.write(rows(undecided, outcome(sink.place.real_topic)))
    assert sink.values(sink.place.real_topic) == []


def test_what_a_consumer_sent_back_and_is_rejected_is_a_dead_letter_of_its_group(sink: Sink) -> None:
    """Where there is such a topic, and it takes it; else it is rejected as all others are, and the reason says so."""
    topics = sink.place.topics
    dead, narrow = sink.topic("dlq.points"), sink.topic("dlq.narrow", max_message_bytes=str(LIMIT))

    def rejected(topic: str, value: bytes, lies_in: str = topics.half) -> dict[str, Any]:
        group = topic.removeprefix(topics.retry("")).encode()
        ours = [("cb-group", group), ("cb-topic", topic.encode())]
        headers = packed_headers([*ours, ("checkback-tries", b"1")])
        return outcome(lies_in, kind=OutcomeKind.REJECT_RECORD, value=value, headers=headers, reason="too late")

    sink.write_all(
        rejected(topics.retry("points"), b"a retry"),
        rejected(topics.retry("narrow"), b"x" * 2 * LIMIT),
        rejected(topics.retry("nobody"), b"of nobody"),
        rejected("orders", b"of a producer"),
        rejected(topics.retry("points"), b"an op", lies_in=topics.op),
        outcome(sink.place.real_topic),
    )
    (letter,) = sink.place.read(dead)
    assert letter.value == b"a retry"
    assert letter.headers == [("checkback-tries", b"1"), ("checkback-reason", b"too late")]
    assert sink.values(narrow) == []
    reasons = {record.value[:9]: dict(record.headers)["cb-reason"] for record in sink.place.read(topics.rejected)}
    assert reasons.pop(b"x" * 9).startswith(f"too late; and {narrow} does not take it: it has 2,".encode())
    assert reasons.pop(b"of nobody").startswith(f"too late; and {topics.dead('nobody')} does not take it".encode())
    assert reasons == {b"of a prod": b"too late", b"an op": b"too late"}
    assert sink.values(sink.place.real_topic) == [b"v"]


def test_check_requests_of_several_messages_are_the_halfs_value(sink: Sink) -> None:
    value = b'{"messages":[{"topic":"t","key":null,"payload":null,"headers":[["\xc3\xbc","AP8="]]}]}'
    sink.write(rows(outcome("t", kind=OutcomeKind.CHECK, partition=BUNDLE, value=value)))
    assert sink.values(sink.place.topics.check) == [value]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalKafka]:
    """A broker that knows permissions; all is open that has none."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    properties = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    with LocalKafka(properties=properties) as kafka:
        yield kafka


@pytest.fixture
def guarded_sink(guarded: LocalKafka, place: Place) -> Sink:
    here = place.on(guarded.bootstrap_servers)
    here.create_topics(real_partitions=4)
    return Sink(here)


def deny(sink: Sink, topic: str, *operations: ACLOperation) -> None:
    """Everything is allowed on the topic but these."""
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    entries = [(ACLOperation.ALL, ACLPermissionType.ALLOW), *((one, ACLPermissionType.DENY) for one in operations)]
    with closing(KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)) as admin:
        admin.create_acls([ACL("User:ANONYMOUS", "*", operation, kind, pattern) for operation, kind in entries])


def test_a_topic_that_may_not_be_written_to(guarded_sink: Sink) -> None:
    sink = guarded_sink
    closed, narrow = sink.topic("closed"), sink.topic("narrow", max_message_bytes=str(LIMIT))
    deny(sink, closed, ACLOperation.WRITE)
    bundle = pack([Message(closed, b"1"), Message(sink.place.real_topic, b"2")])
    for number in range(2):
        ids = [f"{number}-{n}" for n in range(3)]
        sink.write(
            rows(
                outcome(closed, transaction_id=ids[0]),
                outcome(narrow, transaction_id=ids[1], value=b"x" * 2000),
                outcome(closed, kind=OutcomeKind.DELIVER_BUNDLE, transaction_id=ids[2], partition=BUNDLE, value=bundle),
                outcome(sink.place.real_topic),
            ),
            number,
        )
    assert sink.passes == 2 + 1
    assert sorted(sink.values(sink.place.real_topic)) == [b"2", b"2", b"v", b"v"]
    parked = sink.parked()
    assert parked.keys() == {"0-1", "1-1"}
    held = sink.held()
    assert held.keys() == {"0-0", "0-2#1", "1-0", "1-2#1"}
    assert held["0-0"].endswith(f"{closed}: this job may not write to that topic: grant its user Write on it")


def test_a_topic_that_may_not_be_seen_is_no_topic(guarded_sink: Sink) -> None:
    hidden = guarded_sink.topic("hidden")
    deny(guarded_sink, hidden, ACLOperation.DESCRIBE, ACLOperation.WRITE)
    guarded_sink.write(rows(outcome(hidden, transaction_id="hidden"), outcome(guarded_sink.place.real_topic)))
    assert (set(guarded_sink.held()), guarded_sink.values(guarded_sink.place.real_topic)) == ({"hidden"}, [b"v"])


def test_topics_that_say_nothing_of_themselves_are_tried(guarded_sink: Sink) -> None:
    sink = guarded_sink
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    compacted = sink.topic("compacted", cleanup_policy="compact")
    for topic in (narrow, compacted):
        deny(sink, topic, ACLOperation.DESCRIBE_CONFIGS)
    sizes = [LIMIT + 1, 200, LIMIT, 300, 5000, LIMIT + 2, 400]
    sink.write_all(
        *(of_size(narrow, size, transaction_id=f"{size}") for size in sizes),
        outcome(compacted, key=b"k"),
        outcome(compacted, transaction_id="keyless"),
        outcome(sink.place.real_topic),
    )
    assert {dict(record.headers)["cb-id"] for record in sink.place.read(narrow)} == {b"1000", b"200", b"300", b"400"}
    assert sink.parked().keys() == {"1001", "1002", "5000", "keyless"}
    assert (sink.values(compacted), sink.values(sink.place.real_topic)) == ([b"v"], [b"v"])


def test_a_failed_pass_leaves_no_producer_behind_though_nothing_collects_garbage(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[KafkaTransaction]] = []

    def remembered(*arguments: Any) -> KafkaTransaction:
        transaction = KafkaTransaction(*arguments)
        made.append(weakref.ref(transaction))
        return transaction

    monkeypatch.setattr(beginning, "KafkaTransaction", remembered)
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    gc.disable()  # as in Spark's workers: streaming.python_worker.preparation
    try:
        sink.write(rows(outcome(narrow, value=b"x" * 2000), outcome(sink.place.real_topic)))
        assert len(made) >= 2, "the pass that failed, and the one that did not"
        wait_until(lambda: not any(reference() for reference in made), "their end")
    finally:
        gc.enable()
