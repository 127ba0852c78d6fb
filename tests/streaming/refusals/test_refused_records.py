"""Records that Kafka refuses, on a real Kafka: parked with the reason, all others of their batch delivered."""

import json
import time
import uuid
from contextlib import closing

import pytest
from kafka import KafkaAdminClient

from checkback.wire.message_json import pack
from checkback.wire.protocol import Message
from state import BUNDLE, OutcomeKind
from streaming.batch.headers import packed_headers
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink import transaction
from streaming.kafka_sink.partition_writer import _known_topics
from tests.place import configure_topic, wait_until
from tests.streaming.outcomes import outcome, rows
from tests.streaming.refusals.scene import LIMIT, Rows, Sink, of_size


def test_a_message_is_too_large_for_its_topic(sink: Sink, narrow: str) -> None:
    report = sink.write_all(
        outcome(sink.place.real_topic, value=b"before"),
        outcome(narrow, transaction_id="huge", value=b"x" * 2000, partition=0),
        of_size(narrow, LIMIT + 1, transaction_id="a byte too large"),
        of_size(narrow, LIMIT, transaction_id="just fits"),
        outcome(sink.place.real_topic, value=b"after"),
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


def test_one_refused_message_of_several_in_a_transaction(sink: Sink, narrow: str) -> None:
    value = pack(
        [
            Message(sink.place.real_topic, b"first"),
            Message(narrow, b"x" * 2000, b"key", [("h", b"1")]),
            Message(narrow, b"fits"),
            Message("no-such-topic", b"nowhere"),
        ]
    )
    bundle = {"kind": OutcomeKind.DELIVER_BUNDLE, "partition": BUNDLE, "value": value}
    sink.write_all(outcome(narrow, transaction_id="tx", **bundle))
    assert (sink.values(sink.place.real_topic), sink.values(narrow)) == ([b"first"], [b"fits"])
    assert (set(sink.parked()), set(sink.held())) == ({"tx#2"}, {"tx#4"})
    refused = next(r for r in sink.place.read(sink.place.topics.half) if r.key == b"key")
    assert (refused.value, refused.headers[-1]) == (b"x" * 2000, ("h", b"1"))


def test_all_kinds_of_refusal_in_one_batch_cost_one_more_pass(sink: Sink, narrow: str) -> None:
    compacted = sink.topic("compacted", cleanup_policy="compact")
    sink.write_all(
        outcome(narrow, transaction_id="1", value=b"x" * 2000),
        outcome(compacted, transaction_id="2"),
        outcome("no-such-topic", transaction_id="3"),
        outcome(sink.place.real_topic, transaction_id="4", partition=7),
        outcome(sink.place.real_topic),
        *(outcome(compacted, key=key, value=value) for key, value in ((b"k", b"1"), (b"", b"2"))),
    )
    assert sink.parked().keys() == {"1", "2"}
    assert "compacted, and the message has no key" in sink.parked()["2"]
    assert sink.held().keys() == {"3", "4"}
    assert (sink.values(compacted), sink.values(sink.place.real_topic)) == ([b"1", b"2"], [b"v"])
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


def test_what_was_learnt_saves_the_next_batch_a_pass(sink: Sink, narrow: str) -> None:
    for number in range(3):
        refused = outcome(narrow, transaction_id=f"{number}", value=b"x" * 2000)
        sink.write(rows(refused, outcome(sink.place.real_topic)), number)
    assert sink.passes == 2 + 1 + 1
    assert (len(sink.parked()), len(sink.values(sink.place.real_topic))) == (3, 3)


def test_a_topic_made_wider_gets_its_messages_when_it_is_asked_anew(sink: Sink, narrow: str) -> None:
    sink.write(rows(outcome(narrow, transaction_id="early", value=b"x" * 2000)))
    configure_topic(sink.place.bootstrap_servers, narrow, max_message_bytes="5000")
    known = _known_topics(SinkSettings(sink.place.bootstrap_servers, sink.place.topics, 60_000))
    known._until[narrow] = 0.0
    sink.write(rows(outcome(narrow, transaction_id="late", value=b"x" * 2000)), 1)
    assert (set(sink.parked()), len(sink.values(narrow)), sink.passes) == ({"early"}, 1, 3)


def test_a_batch_with_refused_messages_is_written_once_and_counted_by_one_pass(sink: Sink, narrow: str) -> None:
    counted = outcome("", kind=OutcomeKind.COUNT, reason="committed", half_offset=2, attempt=-1)
    mixed = [outcome(narrow, transaction_id="huge", value=b"x" * 2000), outcome(sink.place.real_topic), counted]
    report = sink.write(rows(*mixed))
    assert (report.skipped, report.written) == (False, 2)
    assert json.loads(report.counts) == {"committed": 2, "undeliverable": 1}
    assert sink.write(rows(*mixed)).skipped
    assert (sink.values(sink.place.real_topic), len(sink.parked())) == ([b"v"], 1)


def test_nothing_of_the_pass_that_failed_is_seen_by_read_committed(sink: Sink, narrow: str) -> None:

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
        producer.send(sink.place.real_topic, b"another's", partition=0).get(120)
    assert sink.values(sink.place.real_topic) == [b"another's"]


@pytest.mark.parametrize("kept_bytes", [64 << 20, 20_000])
def test_rows_are_pulled_once_and_may_be_larger_than_what_is_kept(sink: Sink, narrow: str, kept_bytes: int) -> None:
    sink.kept_bytes = kept_bytes
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


def test_topics_that_refuse_every_date_do_not_stop_the_job_when_they_are_tried_again(sink: Sink) -> None:
    """As a consumer may configure the topic of its retries."""
    of_no_date = {"message_timestamp_before_max_ms": "1", "message_timestamp_after_max_ms": "1"}
    topics = [sink.topic(f"r{n}", 1, **of_no_date) for n in range(3)]
    dated_ms = time.time_ns() // 1_000_000 - 60_000
    for number in range(2):
        again = packed_headers([("cb-held", b"1 1000 0:3"), ("cb-deliver-at", b"2000")]) if number else None
        messages = [outcome(topic, transaction_id=f"{number} {topic}", headers=again) for topic in topics]
        sink.write(rows(*messages, outcome(sink.place.real_topic)), number, dated_ms)
    assert sink.held().keys() == {f"{number} {topic}" for number in range(2) for topic in topics}
    assert sink.values(sink.place.real_topic) == [b"v", b"v"]


def test_records_are_dated_by_the_batch_and_not_by_the_tasks_clock(sink: Sink, narrow: str) -> None:
    dated_ms = time.time_ns() // 1_000_000 - 600_000
    sink.write(rows(outcome(sink.place.real_topic), outcome(narrow)), 0, dated_ms)
    sink.write(rows(outcome(narrow)), 1, dated_ms)
    found = [*sink.place.read(sink.place.real_topic), *sink.place.read(narrow)]
    assert [record.timestamp for record in found] == [dated_ms] * 3


def test_a_topic_that_is_deleted_meanwhile(sink: Sink) -> None:
    doomed = sink.topic("doomed")

    def deleting() -> Rows:
        yield from rows(outcome(sink.place.real_topic, value=b"good"))
        with closing(KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)) as admin:
            admin.delete_topics([doomed])
        yield from rows(outcome(doomed, transaction_id="gone"), outcome(sink.place.real_topic, value=b"too"))

    sink.write(deleting())
    assert sorted(sink.values(sink.place.real_topic)) == [b"good", b"too"]
    assert sink.held() == {"gone": f"committed, but not deliverable to {doomed}: there is no such topic"}


def test_compressed_messages_are_judged_by_what_they_are_compressed_to(sink: Sink, narrow: str) -> None:
    sink.options = {"compression.type": "gzip"}
    dice = [uuid.uuid4().bytes * 2 for _ in range(100)]
    sink.write_all(
        outcome(narrow, transaction_id="zeros", value=bytes(5000)),
        outcome(narrow, transaction_id="noise", value=b"".join(dice)),
        outcome(narrow, transaction_id="small"),
        outcome(narrow, transaction_id="noise too", value=b"".join(reversed(dice))),
    )
    assert {dict(record.headers)["cb-id"] for record in sink.place.read(narrow)} == {b"zeros", b"small"}
    assert sink.parked().keys() == {"noise", "noise too"}
    assert "too large" in sink.parked()["noise"]
