"""Receipts in a real Kafka, and which of their ops the job rejected."""

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from kafka import TopicPartition

from checkback.exceptions import KafkaUnreachableError, OperatorError
from checkback.kafka.record_ranges import ReadLimits
from checkback.operations.operator_ops import OperatorOps
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers
from conf import Settings
from status_page.transactions import transaction_story
from status_page.transactions.receipts import Chosen, OperatorDecision, Receipt
from status_page.transactions.transaction_story import KafkaReceipts, KafkaStories
from tests.job_records import JobRecords
from tests.place import Place
from tests.status_page.transactions.scene import FakeConsumer, Record

HALF, OTHER = HalfPosition(1, 7), HalfPosition(0, 3)
WHY = "it contradicts the decision"


def receipt(name: str = "token", ms_ago: int = 1_000) -> Receipt:
    chosen = (Chosen(HALF, "tx-1", "shop\u20ac", "orders"), Chosen(OTHER, "tx-2", "bank", "money"))
    decision = OperatorDecision(Action.ROLLBACK, chosen, "Ada", "she looked")
    return Receipt(name, decision, time.time_ns() // 1_000_000 - ms_ago, frozenset({OTHER}))


def test_a_receipt_is_read_as_it_was_written() -> None:
    written = receipt()
    assert Receipt.from_record("token", written.to_record(), 0) == written
    assert Receipt.from_record("0:7:token", written.to_record(), 9) == replace(written, name="0:7:token", filed_ms=9)
    assert Receipt.from_record("0:7:taken", written.to_record(), 9) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"what": "praise"},
        {"time_ms": "now"},
        {"time_ms": None},
        {"transactions": [["1:7", "tx-1", "shop"]]},
        {"transactions": [["1", "tx-1", "shop", "orders"]]},
        {"transactions": [7]},
        {"transactions": 7},
        {"by_lane": ["x"]},
    ],
)
def test_anything_else_is_none(changed: dict[str, object]) -> None:
    assert (
        Receipt.from_record("token", json.dumps({**json.loads(receipt().to_record()), **changed}).encode(), 0) is None
    )


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"{}"])
def test_nor_is_what_is_no_object(value: bytes | None) -> None:
    assert Receipt.from_record("token", value, 0) is None


class Consumer(FakeConsumer):
    """Of the topics that receipts need; one of its own for each reading."""

    def __init__(self, logs: dict[str, list[Record]]) -> None:
        super().__init__()
        self.logs = logs
        self.read = 0

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._positions[place] = offset

    def resume(self, *_: TopicPartition) -> None:
        pass

    def pause(self, *_: TopicPartition) -> None:
        pass

    def position(self, place: TopicPartition, timeout_ms: int = 0) -> int:
        return self._positions[place]

    def end_offsets(self, places: Iterable[TopicPartition], timeout_ms: int = 0) -> dict[TopicPartition, int]:
        return super().end_offsets(places, timeout_ms)

    def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        def first(place: TopicPartition, since_ms: int) -> Record | None:
            return next((record for record in self.logs[place.topic] if record.timestamp >= since_ms), None)

        return {place: first(place, since_ms) for place, since_ms in times.items()}

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        found = super().poll(timeout_ms, max_records)
        self.read += sum(map(len, found.values()))
        return found

    def close(self, **_: object) -> None:
        self.closed = True


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumer]:
    """Those that were opened; the first one's logs are everybody's."""
    opened = [Consumer({"cb.audit": [], "cb.rejected": []})]

    def opening(*_: object, **__: object) -> Consumer:
        opened.append(Consumer(opened[0].logs))
        return opened[-1]

    monkeypatch.setattr(transaction_story, "reading_consumer", opening)
    return opened


def refused(half: HalfPosition, name: str, action: Action, offset: int, time_ms: int) -> Record:
    headers = [("cb-reason", WHY.encode()), *op_headers(name, "shop", half, action, Source.OPERATOR)]
    return Record(None, b"", headers, time_ms, offset)


def test_one_record_is_read_for_a_receipt(consumers: list[Consumer]) -> None:
    written = replace(receipt(), filed_ms=5)
    records = [Record(None, b"none", offset=number) for number in range(20)]
    records[7] = Record(None, written.to_record(), offset=7)
    consumers[0].logs["cb.audit"] = records
    reader = KafkaReceipts(Settings())
    assert reader.kept("0:7:token") == replace(written, name="0:7:token")
    assert consumers[-1].read <= 3
    assert [reader.kept(name) for name in ("0:7:x", "0:6:token", "0:20:token", "1:7:token", "token")] == [None] * 5
    assert all(one.closed for one in consumers[1:])


def test_rejected_records_are_read_once_and_go_on_after_a_pause(
    consumers: list[Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = receipt()
    now_ms = looked_at.time_ms
    others = [refused(HALF, "other", Action.ROLLBACK, offset, now_ms) for offset in range(1, 20)]
    log = [refused(HALF, "tx-1", Action.ROLLBACK, 0, now_ms - 120_000), *others]
    log.append(refused(HALF, "tx-1", Action.ROLLBACK, 20, now_ms + 1))
    consumers[0].logs["cb.rejected"] = log
    reader = KafkaReceipts(Settings())
    monkeypatch.setattr(transaction_story, "_RECEIPT_LIMITS", ReadLimits(seconds=0.0))
    assert not reader.read_rejected(looked_at)
    assert looked_at.reached == {0: 1}, "the first one is from before the decision"
    monkeypatch.setattr(transaction_story, "_RECEIPT_LIMITS", ReadLimits(seconds=60.0))
    assert reader.read_rejected(looked_at)
    assert looked_at.rejected == {f"{HALF} tx-1": WHY}
    assert (looked_at.reached, consumers[-1].read) == ({0: 21}, 20)
    log.append(refused(OTHER, "tx-2", Action.COMMIT, 21, now_ms + 2))
    assert reader.read_rejected(looked_at)
    assert (looked_at.rejected[f"{OTHER} tx-2"], consumers[-1].read) == (WHY, 1)


def test_a_receipt_is_kept_under_its_place(place: Place) -> None:
    reader, written = KafkaReceipts(place.settings()), receipt()
    with OperatorOps(place.bootstrap_servers, place.topics) as ops:
        ops.file(b"no receipt")
        partition, offset, written.filed_ms = ops.file(written.to_record())
    written.name = f"{partition}:{offset}:token"
    assert reader.kept(written.name) == written
    others = (f"{partition}:{offset}:taken", f"{partition}:{offset - 1}:token", f"{partition}:{offset + 1}:token")
    for name in (*others, f"{partition + 1}:{offset}:token", "token", "x:y:token", "0:99999999999999999999:token"):
        assert reader.kept(name) is None, name


def test_rejected_ops_have_their_reason_and_each_record_is_read_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, looked_at = KafkaReceipts(place.settings()), receipt()
    assert reader.read_rejected(looked_at)
    with JobRecords(place) as job:
        job.refused("tx-1", HALF, "cb.op:1:9", Action.ROLLBACK, WHY)
        job.refused("tx-1", HALF, "cb.op:1:10", Action.COMMIT, "another operator's")
        job.refused("tx-2", OTHER, "cb.op:0:9", Action.COMMIT, "its lane's commit")
    monkeypatch.setattr(transaction_story, "_RECEIPT_LIMITS", ReadLimits(seconds=0.0))
    assert not reader.read_rejected(looked_at)
    assert looked_at.rejected == {}
    monkeypatch.undo()
    assert reader.read_rejected(looked_at)
    assert looked_at.rejected == {f"{HALF} tx-1": WHY, f"{OTHER} tx-2": "its lane's commit"}
    looked_at.rejected.clear()
    assert reader.read_rejected(looked_at)
    assert looked_at.rejected == {}, "these were read"
    clock_ahead = replace(receipt(ms_ago=-600_000), filed_ms=receipt().time_ms)
    assert reader.read_rejected(clock_ahead)
    assert clock_ahead.rejected == {f"{HALF} tx-1": WHY, f"{OTHER} tx-2": "its lane's commit"}
    later = receipt(ms_ago=-3_600_000)
    assert reader.read_rejected(later)
    assert later.rejected == {}


def test_while_kafka_is_away_nothing_is_known(place: Place) -> None:
    reader = KafkaReceipts(place.on("127.0.0.1:1").settings())
    with pytest.raises(KafkaUnreachableError):
        reader.read_rejected(receipt())
    with pytest.raises(KafkaUnreachableError):
        reader.kept("0:0:token")
    with reader._one_receipt, reader._one_rejected:  # another request reads
        with pytest.raises(OperatorError, match="Others are being read"):
            reader.kept("0:0:token")
        with pytest.raises(OperatorError, match="Others are being read"):
            reader.read_rejected(receipt())


def test_two_stories_are_read_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stories, began = KafkaStories(Settings()), list[int]()

    def nested(*_: object) -> None:
        began.append(len(began))
        stories(HALF)

    monkeypatch.setattr(transaction_story, "reading_consumer", lambda *_, **__: BytesIO())
    monkeypatch.setattr(transaction_story, "story_of", nested)
    with pytest.raises(OperatorError, match="Others are being read"):
        stories(HALF)
    assert began == [0, 1]
    monkeypatch.setattr(transaction_story, "story_of", lambda *_: None)
    assert stories(HALF) == []
