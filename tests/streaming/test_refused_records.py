"""Records that Kafka refuses, on a real Kafka: parked with the reason, all others of their batch delivered."""

import gc
import json
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ConfigResource, ResourcePattern, ResourceType

from checkback.exceptions import OwnTopicError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire import protocol
from checkback.wire.checks import CheckRequest
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message
from state import BUNDLE, OutcomeKind
from streaming.batch.batch import Batch, PartitionReport
from streaming.batch.failpoints import Failpoint
from streaming.batch.headers import packed_headers
from streaming.batch.record import RANDOM_OR_KEYED, Record, batch_bytes
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink import beginning, transaction
from streaming.kafka_sink.partition_writer import _known_topics, write_partition
from streaming.kafka_sink.transaction import KafkaTransaction
from tests.place import Place, wait_until
from tests.streaming.outcomes import outcome, rows

Rows = Iterator[pa.RecordBatch]
LIMIT = 1000


@dataclass
class Sink:
    """The sink's task on a place; counts its passes."""

    place: Place
    passes: int = 0
    query_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    options: dict[str, str] = field(default_factory=dict)
    kept_bytes: int = 64 << 20

    def write(self, outcomes: Rows, number: int = 0, dated_ms: int = 0) -> PartitionReport:
        place = self.place
        settings = SinkSettings(
            place.bootstrap_servers, place.topics, 60_000, self.options, self._count, kept_bytes=self.kept_bytes
        )
        batch = Batch(self.query_id, number, "hash", every_partition_writes=False, dated_ms=dated_ms)
        return write_partition(settings, batch, 0, outcomes)

    def topic(self, name: str, partitions: int = 1, **configuration: str) -> str:
        """A topic of this place; the configuration's names with _ for full stops."""
        with TopicAdministration(self.place.bootstrap_servers) as administration:
            configs = {key.replace("_", "."): value for key, value in configuration.items()}
            full = f"{self.place.topics.prefix}{name}"
            administration.create_one(full, partitions, 1, configs)
            wait_until(lambda: full in administration.partitions((full,)))
        return full

    def values(self, topic: str) -> list[bytes]:
        return [record.value for record in self.place.read(topic)]

    def parked(self) -> dict[str, str]:
        """Transaction id to reason: those that are left to operators."""
        return self._kept("park") | self._reasons(self.place.topics.parked)

    def held(self) -> dict[str, str]:
        """Transaction id to reason: those that will be tried again."""
        return self._kept("commit")

    def _kept(self, action: str) -> dict[str, str]:
        return self._reasons(self.place.topics.half, action)

    def _reasons(self, topic: str, action: str | None = None) -> dict[str, str]:
        found = [dict(record.headers) for record in self.place.read(topic)]
        found = [one for one in found if action is None or one.get("cb-action") == action.encode()]
        assert len({one["cb-id"] for one in found}) == len(found)
        return {one["cb-id"].decode(): one["cb-reason"].decode() for one in found}

    def _count(self, step: Failpoint, _: int) -> None:
        self.passes += step is Failpoint.BEFORE_TRANSACTION


@pytest.fixture
def sink(place: Place) -> Sink:
    return Sink(place)


def of_size(topic: str, size: int, **columns: Any) -> dict[str, Any]:
    """A delivery whose batch of one has exactly so many bytes."""
    row = outcome(topic, value=b"", **columns)
    record = Record(
        topic, RANDOM_OR_KEYED, row["key"], b"x" * (size - 100), [(protocol.ID, row["transaction_id"].encode())]
    )
    fits = record._replace(value=b"x" * (size - 100 + size - batch_bytes(record)))
    assert batch_bytes(fits) == size
    return {**row, "value": fits.value}


def test_a_message_is_too_large_for_its_topic(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    report = sink.write(
        rows(
            outcome(sink.place.real_topic, value=b"before"),
            outcome(narrow, transaction_id="huge", value=b"x" * 2000, partition=0),
            of_size(narrow, LIMIT + 1, transaction_id="a byte too large"),
            of_size(narrow, LIMIT, transaction_id="just fits"),
            outcome(sink.place.real_topic, value=b"after"),
        )
    )
    assert report.written == 5
    assert sorted(sink.values(sink.place.real_topic)) == [b"after", b"before"]
    assert [dict(record.headers)["cb-id"] for record in sink.place.read(narrow)] == [b"just fits"]
    assert sink.parked() == {
        "huge": f"committed, but not deliverable to {narrow} partition 0: "
        "it has 2,081 bytes, and that topic takes fewer than 1,001 (max.message.bytes)",
        "a byte too large": f"committed, but not deliverable to {narrow}: "
        "it has 1,001 bytes, and that topic takes fewer than 1,001 (max.message.bytes)",
    }
    assert sink.passes == 2


def test_small_messages_that_are_too_large_only_together_are_delivered_in_order(sink: Sink) -> None:
    narrow = sink.topic("narrow", 2, max_message_bytes=str(LIMIT))
    small = [outcome(narrow, transaction_id=f"{n}", key=b"k%d" % (n % 5), value=b"%03d" % n * 80) for n in range(200)]
    sink.write(rows(*small, outcome(sink.place.real_topic)))
    read = sink.place.read(narrow)
    assert sorted(record.value[:3] for record in read) == [b"%03d" % n for n in range(200)]
    for key in range(5):
        mine = [record for record in read if record.key == b"k%d" % key]
        assert [record.value[:3] for record in mine] == [b"%03d" % n for n in range(key, 200, 5)]
        assert len({record.partition for record in mine}) == 1
    assert not sink.parked()


def test_a_topic_that_takes_one_message_at_a_time_holds_up_a_batch_for_its_seconds_only(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "_NARROW_SECONDS", 0.05)
    narrow = sink.topic("narrow", 1, max_message_bytes="150")
    many = [outcome(narrow, transaction_id=f"{n}", value=b"x" * 40) for n in range(1_000)]
    sink.write(rows(*many, outcome(sink.place.real_topic)))
    delivered = {dict(record.headers)["cb-id"].decode() for record in sink.place.read(narrow)}
    assert 32 <= len(delivered) < 1_000
    held = [dict(record.headers) for record in sink.place.read(sink.place.topics.half)]
    assert delivered | {one["cb-id"].decode() for one in held} == {f"{n}" for n in range(1_000)}
    assert len(delivered) + len(held) == 1_000
    # not all at once again: each when its turn may have come
    due = [int(one["cb-deliver-at"]) for one in held]
    assert due == sorted(due)
    assert due[0] >= 5_000
    each_ms = 50 / len(delivered)
    assert due[-1] - due[0] > 2 * each_ms * len(held)
    assert sink.values(sink.place.real_topic) == [b"v"]


def test_a_message_without_a_key_for_a_compacted_topic(sink: Sink) -> None:
    compacted = sink.topic("compacted", cleanup_policy="compact")
    sink.write(
        rows(
            outcome(compacted, key=b"k", value=b"1"),
            outcome(compacted, transaction_id="keyless"),
            outcome(compacted, key=b"", value=b"2"),
            outcome(sink.place.real_topic),
        )
    )
    assert (sink.values(compacted), sink.values(sink.place.real_topic)) == ([b"1", b"2"], [b"v"])
    assert sink.parked().keys() == {"keyless"}
    assert "compacted, and the message has no key" in sink.parked()["keyless"]


def test_one_refused_message_of_several_in_a_transaction(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    value = pack(
        [
            Message(sink.place.real_topic, b"first"),
            Message(narrow, b"x" * 2000, b"key", [("h", b"1")]),
            Message(narrow, b"fits"),
            Message("no-such-topic", b"nowhere"),
        ]
    )
    sink.write(
        rows(outcome(narrow, kind=OutcomeKind.DELIVER_BUNDLE, transaction_id="tx", partition=BUNDLE, value=value))
    )
    assert (sink.values(sink.place.real_topic), sink.values(narrow)) == ([b"first"], [b"fits"])
    assert (set(sink.parked()), set(sink.held())) == ({"tx#2"}, {"tx#4"})
    refused = next(r for r in sink.place.read(sink.place.topics.half) if r.key == b"key")
    assert (refused.value, refused.headers[-1]) == (b"x" * 2000, ("h", b"1"))


def test_all_kinds_of_refusal_in_one_batch_cost_one_more_pass(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    compacted = sink.topic("compacted", cleanup_policy="compact")
    sink.write(
        rows(
            outcome(narrow, transaction_id="1", value=b"x" * 2000),
            outcome(compacted, transaction_id="2"),
            outcome("no-such-topic", transaction_id="3"),
            outcome(sink.place.real_topic, transaction_id="4", partition=7),
            outcome(sink.place.real_topic),
        )
    )
    assert sink.parked().keys() == {"1", "2"}
    assert sink.held().keys() == {"3", "4"}
    assert sink.values(sink.place.real_topic) == [b"v"]
    assert sink.passes == 2


def test_what_does_not_fit_into_the_half_topic_either_is_parked_at_once(sink: Sink) -> None:
    huge = outcome(sink.place.real_topic, transaction_id="huge", value=b"x" * 1_500_000)
    report = sink.write(rows(huge, outcome(sink.place.real_topic)))
    assert sink.values(sink.place.real_topic) == [b"v"]
    (parked,) = sink.place.read(sink.place.topics.parked)
    headers = dict(parked.headers)
    assert (headers["cb-half"], headers.get("cb-from")) == (b"0:7", None)
    assert json.loads(report.counts) == {"undeliverable": 1, "parked": 1}
    assert sink.passes == 3


def test_what_was_learnt_saves_the_next_batch_a_pass(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    for number in range(3):
        sink.write(
            rows(outcome(narrow, transaction_id=f"{number}", value=b"x" * 2000), outcome(sink.place.real_topic)), number
        )
    assert sink.passes == 2 + 1 + 1
    assert (len(sink.parked()), len(sink.values(sink.place.real_topic))) == (3, 3)


def test_a_topic_made_wider_gets_its_messages_when_it_is_asked_anew(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    sink.write(rows(outcome(narrow, transaction_id="early", value=b"x" * 2000)))
    admin = KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)
    admin.alter_configs([ConfigResource("TOPIC", narrow, {"max.message.bytes": "5000"})])
    admin.close()
    known = _known_topics(SinkSettings(sink.place.bootstrap_servers, sink.place.topics, 60_000))
    known._until[narrow] = 0.0
    sink.write(rows(outcome(narrow, transaction_id="late", value=b"x" * 2000)), 1)
    assert (set(sink.parked()), len(sink.values(narrow)), sink.passes) == ({"early"}, 1, 3)


def test_a_batch_with_refused_messages_is_written_once(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    mixed = [outcome(narrow, transaction_id="huge", value=b"x" * 2000), outcome(sink.place.real_topic)]
    assert not sink.write(rows(*mixed)).skipped
    assert sink.write(rows(*mixed)).skipped
    assert (sink.values(sink.place.real_topic), len(sink.parked())) == ([b"v"], 1)


def test_nothing_of_the_pass_that_failed_is_seen_by_read_committed(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))

    def torn() -> Rows:
        yield from rows(outcome(sink.place.real_topic, value=b"good"), outcome(narrow, value=b"x" * 2000))
        raise RuntimeError("the state function failed")

    with pytest.raises(RuntimeError):
        sink.write(torn())
    assert sink.values(sink.place.real_topic) == []
    assert not sink.parked()


def test_a_failed_task_leaves_no_open_transaction_for_consumers_to_wait_on(sink: Sink) -> None:
    def torn() -> Rows:
        yield from rows(outcome(sink.place.real_topic, partition=0, value=b"torn"))
        wait_until(lambda: len(sink.place.read(sink.place.real_topic, "read_uncommitted")) == 1)
        raise RuntimeError("the state function failed")

    with pytest.raises(RuntimeError):
        sink.write(torn())
    with sink.place.producer() as producer:
        producer.send(sink.place.real_topic, b"another's", partition=0).get(30)
    assert sink.values(sink.place.real_topic) == [b"another's"]


@pytest.mark.parametrize("kept_bytes", [64 << 20, 20_000])
def test_rows_are_pulled_once_and_may_be_larger_than_what_is_kept(sink: Sink, kept_bytes: int) -> None:
    sink.kept_bytes = kept_bytes
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    pulled = []

    def many() -> Rows:
        for piece in range(20):
            pulled.append(piece)
            yield from rows(
                *(outcome(sink.place.real_topic, transaction_id=f"{piece}-{n}", value=b"x" * 300) for n in range(50)),
                outcome(narrow, transaction_id=f"huge-{piece}", value=b"x" * 2000),
            )

    assert sink.write(many()).written == 20 * 51
    assert pulled == list(range(20))
    ids = [dict(record.headers)["cb-id"].decode() for record in sink.place.read(sink.place.real_topic)]
    assert sorted(ids) == sorted(f"{piece}-{n}" for piece in range(20) for n in range(50))
    assert sink.parked().keys() == {f"huge-{piece}" for piece in range(20)}


@pytest.mark.parametrize("keys", [(None, None), (b"k", b"k"), (None, b"k")])
def test_what_is_dated_wrongly_is_held_and_tried_again(sink: Sink, keys: tuple[bytes | None, bytes | None]) -> None:
    """Found by a fault run: the clock was four days ahead while a batch was written, and its messages were parked."""
    messages = [
        outcome(sink.place.real_topic, transaction_id=f"tx-{number}", key=key, value=b"%d" % number, partition=0)
        for number, key in enumerate(keys)
    ]
    sink.write(rows(*messages), dated_ms=time.time_ns() // 1_000_000 + 4 * 24 * 3_600_000)
    assert sink.parked() == {}
    assert sink.held().keys() == {"tx-0", "tx-1"}
    assert "Invalid timestamp" in sink.held()["tx-0"]
    assert sink.values(sink.place.real_topic) == []


def test_records_are_dated_by_the_batch_and_not_by_the_tasks_clock(sink: Sink) -> None:
    dated_ms = time.time_ns() // 1_000_000 - 600_000
    sink.write(
        rows(outcome(sink.place.real_topic), outcome(sink.topic("narrow", max_message_bytes=str(LIMIT)))), 0, dated_ms
    )
    sink.write(rows(outcome(f"{sink.place.topics.prefix}narrow")), 1, dated_ms)
    found = [*sink.place.read(sink.place.real_topic), *sink.place.read(f"{sink.place.topics.prefix}narrow")]
    assert [record.timestamp for record in found] == [dated_ms] * 3


def test_counts_are_those_of_one_pass(sink: Sink) -> None:
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    counted = outcome("", kind=OutcomeKind.COUNT, reason="committed", half_offset=2, attempt=-1)
    report = sink.write(rows(outcome(narrow, value=b"x" * 2000), outcome(sink.place.real_topic), counted))
    assert (report.written, json.loads(report.counts)) == (2, {"committed": 2, "undeliverable": 1})


def test_a_topic_that_is_deleted_meanwhile(sink: Sink) -> None:
    doomed = sink.topic("doomed")

    def deleting() -> Rows:
        yield from rows(outcome(sink.place.real_topic, value=b"good"))
        admin = KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)
        admin.delete_topics([doomed])
        admin.close()
        yield from rows(outcome(doomed, transaction_id="gone"), outcome(sink.place.real_topic, value=b"too"))

    sink.write(deleting())
    assert sorted(sink.values(sink.place.real_topic)) == [b"good", b"too"]
    assert sink.held() == {"gone": f"committed, but not deliverable to {doomed}: there is no such topic"}


def test_compressed_messages_are_judged_by_what_they_are_compressed_to(sink: Sink) -> None:
    sink.options = {"compression.type": "gzip"}
    narrow = sink.topic("narrow", max_message_bytes=str(LIMIT))
    dice = [uuid.uuid4().bytes * 2 for _ in range(100)]
    sink.write(
        rows(
            outcome(narrow, transaction_id="zeros", value=bytes(5000)),
            outcome(narrow, transaction_id="noise", value=b"".join(dice)),
            outcome(narrow, transaction_id="small"),
            outcome(narrow, transaction_id="noise too", value=b"".join(reversed(dice))),
        )
    )
    assert {dict(record.headers)["cb-id"] for record in sink.place.read(narrow)} == {b"zeros", b"small"}
    assert sink.parked().keys() == {"noise", "noise too"}
    assert "too large" in sink.parked()["noise"]


def test_our_own_topics_take_what_the_half_topic_takes(sink: Sink) -> None:
    place = sink.place
    value = b"x" * 1_048_400
    with place.producer() as producer:
        producer.config["max_request_size"] = 2_000_000
        producer.send(place.topics.half, value).get(30)
    sink.write(
        rows(
            outcome(place.real_topic, transaction_id="refused", key=b"k" * 200, value=value),
            outcome(place.real_topic, kind=OutcomeKind.PARK, transaction_id="parked", value=value, reason="because"),
            outcome(place.real_topic, kind=OutcomeKind.CHECK, transaction_id="checked", key=b"k" * 200, value=value),
            outcome(place.topics.half, kind=OutcomeKind.REJECT_RECORD, value=value, reason="because"),
        )
    )
    assert sink.parked().keys() == {"refused", "parked"}
    for topic in (place.topics.parked, place.topics.check, place.topics.rejected):
        assert set(sink.values(topic)) == {value}


def configure(sink: Sink, topics: Iterable[str], **configuration: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)
    configs = {key.replace("_", "."): value for key, value in configuration.items()}
    admin.alter_configs([ConfigResource("TOPIC", topic, configs) for topic in topics])
    admin.close()


@pytest.mark.parametrize("options", [{}, {"compression.type": "gzip"}])
def test_an_own_topic_gets_the_head_of_what_it_does_not_take_whole(sink: Sink, options: dict[str, str]) -> None:
    sink.options = options
    topics = sink.place.topics
    configure(sink, (topics.parked, topics.rejected, topics.check), max_message_bytes=str(LIMIT))
    noise = b"".join(uuid.uuid4().bytes for _ in range(500))
    report = sink.write(
        rows(
            outcome("t", kind=OutcomeKind.PARK, transaction_id="parked", value=noise, reason="because"),
            outcome("t", kind=OutcomeKind.PARK, transaction_id="small", reason="because"),
            outcome("t", kind=OutcomeKind.CHECK, transaction_id="checked", key=b"k", value=noise),
            outcome(topics.half, kind=OutcomeKind.REJECT_RECORD, value=noise, reason="because"),
            outcome(sink.place.real_topic),
        )
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
        headers = packed_headers([("cb-topic", topic.encode()), ("checkback-tries", b"1")])
        return outcome(lies_in, kind=OutcomeKind.REJECT_RECORD, value=value, headers=headers, reason="too late")

    sink.write(
        rows(
            rejected(topics.retry("points"), b"a retry"),
            rejected(topics.retry("narrow"), b"x" * 2 * LIMIT),
            rejected(topics.retry("nobody"), b"of nobody"),
            rejected("orders", b"of a producer"),
            rejected(topics.retry("points"), b"an op", lies_in=topics.op),
            outcome(sink.place.real_topic),
        )
    )
    (letter,) = sink.place.read(dead)
    assert (letter.value, letter.headers) == (
        b"a retry",
        [("checkback-tries", b"1"), ("checkback-reason", b"too late")],
    )
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
    admin = KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)
    pattern = ResourcePattern(ResourceType.TOPIC, topic)
    entries = [(ACLOperation.ALL, ACLPermissionType.ALLOW), *((one, ACLPermissionType.DENY) for one in operations)]
    admin.create_acls([ACL("User:ANONYMOUS", "*", operation, kind, pattern) for operation, kind in entries])
    admin.close()


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
    assert held["0-0"].endswith(f"{closed}: this job is not authorized to write to that topic")


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
    sink.write(
        rows(
            *(of_size(narrow, size, transaction_id=f"{size}") for size in sizes),
            outcome(compacted, key=b"k"),
            outcome(compacted, transaction_id="keyless"),
            outcome(sink.place.real_topic),
        )
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
        wait_until(lambda: not any(reference() for reference in made), 10, "their end")
    finally:
        gc.enable()
