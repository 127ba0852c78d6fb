"""What the sink does with committed messages that their topics do not take, on a real Kafka."""

import json
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Any

import orjson
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from checkback.exceptions import ProtocolError
from checkback.operations.topics import TopicAdministration
from checkback.wire.message_json import pack, to_base64
from checkback.wire.protocol import SIGNATURE, HalfPosition, HeldNote, Message
from checkback.wire.signed_records import WINDOW_MS, WrittenSignature
from conf import Settings
from state import BUNDLE, OutcomeKind
from streaming.batch.batch import Batch, HeldChanges, HeldUntil, PartitionReport, summed_counts
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.holding import pause_ms
from streaming.kafka_sink.partition_writer import write_partition
from tests.place import Place, configure_topic, signing_access
from tests.streaming.outcomes import outcome, rows

NOW_MS = 1_000_000
HOUR_MS = 3_600_000


@dataclass
class Sink:
    """The sink's task, batch after batch, and the half messages that it writes."""

    place: Place
    query_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    batches: int = 0
    seen: int = 0

    def write(self, *outcomes: dict[str, Any], now_ms: int = NOW_MS) -> PartitionReport:
        place = self.place
        settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000, redeliver_for_ms=HOUR_MS)
        batch = Batch(self.query_id, self.batches, "hash", every_partition_writes=False, time_ms=now_ms)
        self.batches += 1
        return write_partition(settings, batch, 0, rows(*outcomes))

    def kept(self) -> Any:
        """The one half message that has been written since."""
        found = [record for record in self.place.read(self.place.topics.half) if record.partition == 0]
        (record,) = found[self.seen :]
        self.seen += 1
        return record

    def taken_in(self, record: Any) -> dict[str, Any]:
        """The outcome that a half message becomes, as the state machine gives it when it is due."""
        headers = dict(record.headers)
        packed = orjson.dumps([{"key": name, "value": to_base64(value)} for name, value in record.headers]).decode()
        place = {"half_partition": record.partition, "half_offset": record.offset}
        named = {"transaction_id": headers["cb-id"].decode(), "partition": int(headers.get("cb-partition", b"-1"))}
        content = {"key": record.key, "value": record.value, "headers": packed}
        return outcome(headers["cb-topic"].decode(), **place, **named, **content)

    def create(self, topic: str, configuration: dict[str, str] | None = None) -> None:
        with TopicAdministration(self.place.bootstrap_servers) as administration:
            administration.create_one(topic, 1, 1, configuration)
            assert administration.wait_for([topic]) == []


@pytest.fixture
def sink(place: Place) -> Sink:
    return Sink(place)


@pytest.mark.parametrize(("tries", "pause"), [(0, 5_000), (1, 10_000), (6, 320_000), (7, 600_000), (10**9, 600_000)])
def test_pauses_grow_up_to_ten_minutes(tries: int, pause: int) -> None:
    assert pause_ms(tries) == pause


def test_a_held_message_is_a_half_message_that_carries_its_own_decision(sink: Sink) -> None:
    late = f"{sink.place.topics.prefix}late"
    packed = '[{"key":"b","value":"AP8="},{"key":"a","value":""},{"key":"n"},{"key":"cb-check-max","value":"MQ=="}]'
    report = sink.write(outcome(late, transaction_id="tx", partition=2, key=b"k", headers=packed, half_offset=77))
    assert json.loads(report.counts) == {"held": 1}
    record = sink.kept()
    assert (record.key, record.value) == (b"k", b"v")
    assert record.headers == [
        *(("cb-id", b"tx"), ("cb-group", b"shop"), ("cb-topic", late.encode()), ("cb-partition", b"2")),
        *(("cb-action", b"commit"), ("cb-deliver-at", b"1005000"), ("cb-held", b"1 1000000 0:77")),
        ("cb-reason", f"committed, but not deliverable to {late} partition 2: there is no such topic".encode()),
        *[("b", b"\x00\xff"), ("a", b""), ("n", None)],
    ]


def test_a_held_message_is_signed_by_kafkas_clock(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerance_ms = Settings().job.clock_tolerance
    settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000, access=signing_access(tmp_path))
    for off_ms in (-tolerance_ms, tolerance_ms):
        off_ns = off_ms * 1_000_000
        monkeypatch.setattr("streaming.kafka_sink.partition_writer.time_ns", lambda off=off_ns: time_ns() + off)
        dated_ms = time_ns() // 1_000_000
        batch = Batch(uuid.uuid4().hex, 0, "hash", every_partition_writes=False, time_ms=NOW_MS, dated_ms=dated_ms)
        write_partition(settings, batch, 0, rows(outcome(f"{place.topics.prefix}late")))
    records = place.read(place.topics.half)
    signatures = [WrittenSignature.parse(dict(record.headers)[SIGNATURE]) for record in records]
    assert len(signatures) == 2
    for record, signature in zip(records, signatures, strict=True):
        assert signature is not None
        assert abs(record.timestamp - signature.time_ms) < WINDOW_MS


def test_it_is_tried_again_with_growing_pauses_and_delivered_once_its_topic_is_there(sink: Sink) -> None:
    late = f"{sink.place.topics.prefix}late"
    sink.write(outcome(late, transaction_id="tx", half_offset=77, headers='[{"key":"a","value":"MQ=="}]'))
    first = sink.kept()
    report = sink.write(sink.taken_in(first), now_ms=NOW_MS + 6_000)
    tried, waits = HeldUntil(late, 1_005), HeldUntil(late, 1_016, "there is no such topic")
    assert summed_counts(HeldUntil, [report.held]) == HeldChanges({tried: -1, waits: 1})
    second = dict(sink.kept().headers)
    assert (second["cb-held"], second["cb-deliver-at"]) == (b"2 1000000 0:77", b"%d" % (NOW_MS + 6_000 + 10_000))
    sink.create(late)
    counted = outcome("", kind=OutcomeKind.COUNT, reason="committed", half_offset=1)
    report = sink.write(sink.taken_in(first), counted)
    assert summed_counts(HeldUntil, [report.held]) == HeldChanges({tried: -1})
    assert json.loads(report.counts) == {"redelivered": 1}, "it was counted as committed when it was tried first"
    (record,) = sink.place.read(late)
    assert (record.value, record.headers) == (b"v", [("cb-id", b"tx"), ("a", b"1")])


def test_a_topic_that_was_grown_takes_its_message(sink: Sink) -> None:
    real = sink.place.real_topic
    sink.write(outcome(real, value=b"before"), outcome(real, partition=5, value=b"beyond"))
    held = sink.kept()
    assert b"that topic has 4 partitions" in dict(held.headers)["cb-reason"]
    with closing(KafkaAdminClient(bootstrap_servers=sink.place.bootstrap_servers)) as admin:
        admin.create_partitions({real: NewPartitions(6)})
    sink.write(sink.taken_in(held))
    (record,) = [record for record in sink.place.read(real) if record.partition == 5]
    assert record.value == b"beyond"


def test_after_redeliver_for_it_is_left_to_operators(sink: Sink) -> None:
    nowhere = f"{sink.place.topics.prefix}nowhere"
    sink.write(outcome(nowhere, transaction_id="tx", half_offset=77))
    held = sink.taken_in(sink.kept())
    sink.write(held, now_ms=NOW_MS + HOUR_MS - 1)
    assert dict(sink.kept().headers)["cb-action"] == b"commit"
    report = sink.write(held, now_ms=NOW_MS + HOUR_MS)
    assert json.loads(report.counts) == {"undeliverable": 1}
    headers = dict(sink.kept().headers)
    assert (headers["cb-action"], headers["cb-held"]) == (b"park", b"0 0 0:77")
    assert "cb-deliver-at" not in headers


def test_what_is_a_messages_own_fault_is_left_to_operators_at_once(sink: Sink) -> None:
    compacted = f"{sink.place.topics.prefix}compacted"
    sink.create(compacted, {"cleanup.policy": "compact"})
    sink.write(outcome(compacted, transaction_id="tx"))
    assert dict(sink.kept().headers)["cb-action"] == b"park"


def test_an_operators_redelivery_asks_the_topic_again(sink: Sink) -> None:
    narrow = f"{sink.place.topics.prefix}narrow"
    sink.create(narrow, {"max.message.bytes": "1000"})
    sink.write(outcome(narrow, transaction_id="tx", value=b"x" * 2_000))
    left = sink.taken_in(sink.kept())
    sink.write(left)
    again = dict(sink.kept().headers)
    assert (again["cb-action"], again["cb-held"]) == (b"park", b"0 0 0:7")
    configure_topic(sink.place.bootstrap_servers, narrow, max_message_bytes="5000")
    report = sink.write(left)
    assert json.loads(report.counts) == {"redelivered": 1}
    assert [len(record.value) for record in sink.place.read(narrow)] == [2_000]


def test_what_is_not_taken_again_is_not_said_to_be_delivered(sink: Sink) -> None:
    narrow, late = (f"{sink.place.topics.prefix}{name}" for name in ("narrow", "late"))
    sink.create(narrow, {"max.message.bytes": "1000"})
    messages = [
        outcome(narrow, transaction_id="refused", value=b"x" * 2_000, half_offset=1),
        outcome(late, transaction_id="held", half_offset=2),
        outcome(sink.place.real_topic, transaction_id="taken", half_offset=3),
    ]
    ends = [{**row, "kind": OutcomeKind.PARK_END, "reason": "committed", "value": None} for row in messages]
    sink.write(*messages, *ends)
    parked = [dict(record.headers) for record in sink.place.read(sink.place.topics.parked)]
    assert {record["cb-id"]: record["cb-ended"] for record in parked} == {
        b"refused": b"committed, refused",
        b"held": b"committed, held",
        b"taken": b"committed",
    }


def test_one_message_of_several_is_held_by_itself_whatever_the_length_of_its_id(sink: Sink) -> None:
    late = f"{sink.place.topics.prefix}late"
    value = pack([Message(sink.place.real_topic, b"1"), Message(late, b"2", b"k", [("h", b"x")])])
    row = outcome(late, kind=OutcomeKind.DELIVER_BUNDLE, transaction_id="i" * 64, partition=BUNDLE, value=value)
    sink.write({**row, "headers": '[{"key":"common","value":"MQ=="}]'})
    record = sink.kept()
    assert (record.key, record.value) == (b"k", b"2")
    assert dict(record.headers)["cb-id"] == b"i" * 64 + b"#2"
    assert record.headers[-2:] == [("h", b"x"), ("common", b"1")]


def test_a_parked_record_of_an_undeliverable_message_says_why_and_where_it_came_from(sink: Sink) -> None:
    late = f"{sink.place.topics.prefix}late"
    sink.write(outcome(late, transaction_id="tx", half_offset=77), now_ms=NOW_MS)
    held = sink.taken_in(sink.kept())
    sink.write(held, now_ms=NOW_MS + HOUR_MS)
    left = sink.taken_in(sink.kept())
    sink.write({**left, "kind": OutcomeKind.PARK, "reason": ""})
    sink.write({**left, "kind": OutcomeKind.PARK_END, "reason": "committed", "key": None, "value": None, "headers": ""})
    first, second = (dict(record.headers) for record in sink.place.read(sink.place.topics.parked))
    assert first["cb-reason"].startswith(b"committed, but not deliverable to")
    assert (first["cb-from"], first["cb-half"]) == (f"{sink.place.topics.half}:0:77".encode(), b"0:2")
    assert (second["cb-half"], second["cb-ended"]) == (b"0:2", b"committed")


def test_a_parked_record_has_the_last_answer_beside_the_reason(sink: Sink) -> None:
    row = outcome(sink.place.real_topic, kind=OutcomeKind.PARK, transaction_id="tx", half_offset=5)
    for reason in ("unknown: no such\norder\nundecided", "undecided"):
        sink.write({**row, "reason": reason})
    answered, other = (dict(record.headers) for record in sink.place.read(sink.place.topics.parked))
    assert (answered["cb-reason"], answered["cb-answer"]) == (b"undecided", b"unknown: no such\norder")
    assert other["cb-reason"] == b"undecided"
    assert "cb-answer" not in other


def test_what_is_held_is_spelled_and_read() -> None:
    held = HeldNote(3, NOW_MS, HalfPosition(3, 81_923))
    assert str(held) == "3 1000000 3:81923"
    assert HeldNote.parse(str(held)) == held


@pytest.mark.parametrize("text", ["", "1 2", "1 2 3", "a 2 3:4", "1 -2 3:4", "1 2 3:4 5", "1 2 03:4"])
def test_what_is_not_held_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        HeldNote.parse(text)
