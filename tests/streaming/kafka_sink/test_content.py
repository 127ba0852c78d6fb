"""Content that was set aside is read again from the half topic; librdkafka's own mock of a broker stands for Kafka."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from access.policy import policy_of
from access.verifying import CHANGED, Verifier
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message, Topics
from checkback.wire.signed_records import WORDS, SigningKey, place_of, signature_header
from state import BUNDLE, OutcomeKind
from streaming.access.told import NotAllowed
from streaming.batch.headers import application_headers, unpack_headers
from streaming.kafka_sink.content import ANOTHER, GONE, Contents
from streaming.kafka_sink.half_reader import HalfReader
from tests.by_hand import NOT_UTF_8, write_by_hand
from tests.streaming.outcomes import outcome, rows

Headers = list[tuple[str, bytes | None]]
TOPICS = Topics()
OURS: Headers = [("cb-id", b"tx-1"), ("cb-group", b"shop"), ("cb-topic", b"orders")]


class Kafka:
    """A half topic with some partitions."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
        (broker,) = self._producer.list_topics(timeout=30).brokers.values()
        self._address = (broker.host, broker.port)
        self.client = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
        self._by_hand = 0
        self.asked: list[tuple[int, list[int]]] = []

    def write(
        self, value: bytes | None, key: bytes | None = None, headers: Headers | None = None, place: int = 0
    ) -> None:
        self._producer.produce(TOPICS.half, value, key, place, headers=[*OURS, *(headers or [])])
        self._producer.flush(120)

    def written(self, value: bytes, headers: Headers, place: int) -> int:
        """Its offset."""
        placed: list[int] = []
        heard = lambda _, message: placed.append(message.offset())  # noqa: E731  (librdkafka calls it)
        self._producer.produce(TOPICS.half, value, None, place, heard, headers=[*OURS, *headers])
        self._producer.flush(120)
        return placed[0]

    def write_by_hand(self, value: bytes, *, named: bool) -> int:
        """With a header's name that is not UTF-8, or without headers; its offset in partition 3."""
        headers = [(NOT_UTF_8, b"1")] if named else []
        write_by_hand(self._address, TOPICS.half, 3, (None, value, headers))
        self._by_hand += 1
        return self._by_hand - 1

    def reader(self, seconds: float = 60.0) -> HalfReader:
        return HalfReader(self.client, TOPICS.half, seconds)


@pytest.fixture(scope="module")
def broker() -> Kafka:
    """300 half messages of 1 kB on partition 1, all known by their number."""
    made = Kafka()
    for number in range(300):
        made.write(b"%d" % number + b"v" * 1_000, b"key", [("n", b"%d" % number), ("null", None)], place=1)
    return made


@pytest.mark.parametrize("offsets", [[0], [299], [5, 6, 7], [280, 3, 150, 151, 4, 3], [], list(range(300))])
def test_messages_are_read_by_their_offsets(broker: Kafka, offsets: list[int]) -> None:
    reader = broker.reader()
    found = [(offset, message and message.value()) for offset, message in reader.read(1, offsets)]
    assert found == [(offset, b"%d" % offset + b"v" * 1_000) for offset in sorted(set(offsets))]


def test_what_is_not_there_yet_is_not_taken_for_gone(broker: Kafka) -> None:
    with pytest.raises(KafkaException):
        list(broker.reader(seconds=2.0).read(1, [300]))


def test_a_broker_that_is_away_when_a_read_begins_is_waited_for(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = broker.reader()
    consumer = reader._consumer
    away = [KafkaError._UNKNOWN_PARTITION, KafkaError._TRANSPORT]

    class AwayAtFirst:
        def get_watermark_offsets(self, *asked: Any) -> Any:
            if away:
                raise KafkaException(KafkaError(away.pop()))
            return consumer.get_watermark_offsets(*asked)

        def __getattr__(self, name: str) -> Any:
            return getattr(consumer, name)

    monkeypatch.setattr(reader, "_consumer", AwayAtFirst())
    assert [offset for offset, _ in reader.read(1, [3])] == [3]


def left_out(offset: int, size: int = 20_000, **columns: Any) -> dict[str, Any]:
    made = {"value": None, "left_out": size, "half_partition": 1, "half_offset": offset, **columns}
    return outcome("orders", **made)


def filled(contents: Contents, *outcomes: dict[str, Any]) -> tuple[list[dict[str, Any]], Counter[str], int]:
    contents.counts.clear()
    (batch,) = rows(*outcomes)
    pieces = list(contents.filled(batch))
    assert all(piece.schema == batch.schema for piece in pieces)
    return pa.Table.from_batches(pieces).to_pylist(), contents.counts.copy(), len(pieces)


def contents(broker: Kafka, most_bytes: int = 32 << 20) -> Contents:
    reader = broker.reader()
    return Contents(TOPICS, lambda: reader, most_bytes)


def test_rows_get_their_content_back_and_others_stay_as_they_are(broker: Kafka) -> None:
    small, all_aside = outcome("orders", value=b"small"), left_out(7, key=None, headers=None)
    with_headers = left_out(9, 1_001, key=b"key", headers='[{"key":"kept","value":""}]', kind=OutcomeKind.PARK)
    (first, second, third), counts, _ = filled(contents(broker), small, all_aside, with_headers)
    assert first == small
    assert (second["key"], second["value"]) == (b"key", b"7" + b"v" * 1_000)
    assert unpack_headers(second["headers"]) == [*OURS, ("n", b"7"), ("null", None)]
    assert (third["key"], third["headers"]) == (b"key", '[{"key":"kept","value":""}]')
    assert third["value"] == b"9" + b"v" * 1_000
    assert second["left_out"] == third["left_out"] == -1
    assert counts == {}


def test_a_batch_without_such_rows_asks_nobody() -> None:
    def reader() -> HalfReader:
        raise AssertionError

    small = outcome("orders")
    assert filled(Contents(TOPICS, reader), small, {**small, "kind": int(OutcomeKind.COUNT)})[0][0] == small


def test_no_more_is_held_in_memory_than_is_allowed(broker: Kafka) -> None:
    outcomes = [left_out(offset, 1_001) for offset in range(10)]
    found, _, pieces = filled(contents(broker, most_bytes=3_003), *outcomes)
    assert [row["value"][:1] for row in found] == [b"%d" % number for number in range(10)]
    assert pieces == 4


@pytest.mark.parametrize(("size", "there"), [(65_536, True), (65_537, False)])
def test_a_check_gets_a_small_value_back_and_no_large_one(broker: Kafka, size: int, there: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    ((row,), _, _) = filled(contents(broker), left_out(3, size, kind=OutcomeKind.CHECK, key=b"key"))
    assert row["left_out"] == (-1 if there else size)
    assert (row["value"] is not None) == there


def test_a_half_message_that_is_not_taken_in_is_rejected_with_its_content(broker: Kafka) -> None:
    unread: dict[str, Any] = {"transaction_id": "", "group": "", "key": None, "headers": None}
    aside = left_out(7, **unread, kind=OutcomeKind.REJECT_RECORD, reason="quotas")
    ((row,), counts, _) = filled(contents(broker), aside)
    assert (row["kind"], row["reason"]) == (OutcomeKind.REJECT_RECORD, "quotas")
    assert (row["key"], row["value"]) == (b"key", b"7" + b"v" * 1_000)
    assert unpack_headers(row["headers"]) == [*OURS, ("n", b"7"), ("null", None)]
    assert counts == {}


@pytest.mark.parametrize("other", [{"transaction_id": "tx-2"}, {"group": "another"}])
def test_another_message_at_its_place_is_never_taken_for_it(broker: Kafka, other: dict[str, Any]) -> None:
    """The half topic was recreated, or its brokers have lost its end and written on."""
    asides: tuple[dict[str, Any], ...] = ({"key": None, "headers": None}, {"key": b"k"})
    for aside in asides:
        ((row,), counts, _) = filled(contents(broker), left_out(3, **aside, **other))
        assert (row["kind"], row["value"], counts) == (OutcomeKind.PARK, None, {"gone": 1, "parked": 1})
        assert ANOTHER in row["reason"]


def test_one_that_operators_had_stays_in_their_list_when_its_content_is_gone() -> None:
    made = Contents(TOPICS, Empty)  # type: ignore[arg-type]  # on purpose, for this test
    end = outcome("orders", kind=OutcomeKind.PARK_END, reason="committed", half_partition=1, half_offset=3)
    found, _, _ = filled(made, left_out(3), {**end, "half_offset": 4}, end)
    assert [(row["kind"], row["half_offset"]) for row in found] == [(OutcomeKind.PARK, 3), (OutcomeKind.PARK_END, 4)]
    (batch,) = rows(end)
    assert list(made.filled(batch)) == []


class Empty:
    """A half topic that has nothing any more."""

    def read(self, _partition: int, offsets: list[int]) -> Iterator[tuple[int, None]]:
        yield from ((offset, None) for offset in offsets)


def gone(kind: OutcomeKind, **columns: Any) -> tuple[dict[str, Any], Counter[str]]:
    contents = Contents(TOPICS, Empty)  # type: ignore[arg-type]  # on purpose, for this test
    (row,), counts, _ = filled(contents, left_out(3, kind=kind, headers='[{"key":"a","value":""}]', **columns))
    return row, counts


@pytest.mark.parametrize(("kind", "partition"), [(OutcomeKind.DELIVER, 2), (OutcomeKind.DELIVER_BUNDLE, BUNDLE)])
def test_a_committed_message_that_kafka_has_no_more_is_parked_with_that_reason(
    kind: OutcomeKind, partition: int
) -> None:
    row, counts = gone(kind, partition=partition)
    assert (row["kind"], row["value"], row["partition"]) == (OutcomeKind.PARK, None, max(partition, -1))
    assert row["reason"] == f"committed, but not deliverable to orders: {GONE} (1:3)"
    assert application_headers(row["headers"]) == [("a", b"")]
    assert counts == {"gone": 1, "parked": 1}


def test_one_that_is_parked_anyway_says_so_too() -> None:
    row, counts = gone(OutcomeKind.PARK, reason="undecided for longer than the age limit")
    assert row["reason"] == f"undecided for longer than the age limit; {GONE}"
    assert counts == {"gone": 1}


def test_a_check_of_it_is_asked_all_the_same() -> None:
    row, counts = gone(OutcomeKind.CHECK)
    assert (row["kind"], row["left_out"], counts) == (OutcomeKind.CHECK, 20_000, {})


def test_several_messages_are_looked_at_when_they_are_read_again(broker: Kafka) -> None:
    headers = '[{"key":"cb-messages","value":"Mg=="}]'  # 2
    reader = contents(broker)
    for at, value in enumerate((pack([Message("a", b"1"), Message("b", b"2")]), pack([Message("a", b"1")]), b"none")):
        broker.write(value, b"k", place=2)
        bundle = {"half_partition": 2, "partition": BUNDLE, "headers": headers, "key": b"k"}
        ((row,), counts, _) = filled(reader, left_out(at, len(value), kind=OutcomeKind.DELIVER_BUNDLE, **bundle))
        if at == 0:
            assert (row["kind"], row["value"], counts) == (OutcomeKind.DELIVER_BUNDLE, value, {})
        else:
            assert (row["kind"], row["topic"], row["value"]) == (OutcomeKind.REJECT_RECORD, TOPICS.half, value)
            reasons = ("cb-messages says 2, its value holds 1", "Not a value of several messages")
            assert row["reason"].startswith(reasons)
            assert counts == {"malformed": 1}
            ((row,), counts, _) = filled(reader, left_out(at, len(value), kind=OutcomeKind.PARK, **bundle))
            assert (row["kind"], row["partition"], row["value"]) == (OutcomeKind.PARK, -1, value)


@pytest.mark.parametrize("named", [True, False])
def test_a_record_of_somebody_else_at_its_place_is_never_taken_for_it(broker: Kafka, *, named: bool) -> None:
    """Its name is not UTF-8, or it has no headers."""
    place = broker.write_by_hand(b"somebody else's", named=named)
    ((row,), counts, _) = filled(contents(broker), left_out(place, half_partition=3, key=b"key" if named else None))
    assert (row["kind"], row["value"], counts) == (OutcomeKind.PARK, None, {"gone": 1, "parked": 1})
    assert ANOTHER in row["reason"]


KEYED = Verifier(policy_of('[accounts.shop]\ngroups = ["shop"]\nkeys = ["k"]\n'), {"k": SigningKey("k", "s" * 40)})


@pytest.mark.parametrize("bytes_of_value", [10, 3_500, 4_070, 5_000])
@pytest.mark.parametrize("headers", [[], [("trace", b"t" * 200)] * 2, [("x" * 9, b"y")] * 100])
@pytest.mark.parametrize("signed", ["as it is", "another value", "not at all"])
def test_only_content_whose_hash_was_signed_is_held_against_it(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch, bytes_of_value: int, headers: Headers, signed: str
) -> None:
    """Without a hash it was there, and judged, when it came; without a signature it came before its group had a key."""
    monkeypatch.setattr("streaming.kafka_sink.content.told_verifier", lambda: KEYED)
    value, whole = b"v" * bytes_of_value, [*OURS, *headers]
    key, place = SigningKey("k", "s" * 40), place_of(TOPICS.half, 2)
    given = value if signed == "as it is" else b"w" * bytes_of_value
    header = signature_header(key, place, 0, (None, given), whole)
    offset = broker.written(value, [*headers, *([] if signed == "not at all" else [header])], 2)
    row = left_out(offset, bytes_of_value, half_partition=2, key=None, headers=None)
    ((found,), counts, _) = filled(contents(broker), row)
    hashed = len(header[1].split(b" ")) == WORDS + 1
    if signed == "another value" and hashed:
        assert (found["kind"], found["reason"]) == (OutcomeKind.REJECT_RECORD, CHANGED)
        assert unpack_headers(found["headers"]) == [*whole, header]
        assert counts == {"malformed": 1}
    else:
        assert (found["kind"], found["value"], counts) == (OutcomeKind.DELIVER, value, {})


@pytest.mark.parametrize(("bytes_of_each", "refused"), [(3_000, False), (8_000, False), (8_400, True)])
def test_several_messages_that_came_whole_are_not_held_against_a_policy_of_later(
    broker: Kafka,
    monkeypatch: pytest.MonkeyPatch,
    bytes_of_each: int,
    refused: bool,  # noqa: FBT001  (a parameter of the test)
) -> None:
    """Those of more than 16 KiB nobody has looked at when they came."""
    narrow = NotAllowed(policy_of('[accounts.shop]\ngroups = ["shop"]\ntopics = ["another"]\n'), TOPICS)
    monkeypatch.setattr("streaming.kafka_sink.content.told_policy", lambda _: narrow)
    value = pack([Message(topic, b"v" * (bytes_of_each * 3 // 4)) for topic in ("a", "b")])  # base64
    offset = broker.written(value, [("cb-messages", b"2")], 2)
    place = {"half_partition": 2, "partition": BUNDLE}
    row = left_out(offset, len(value), **place, kind=OutcomeKind.DELIVER_BUNDLE, headers=None)
    ((found,), _, _) = filled(contents(broker), row)
    assert (found["kind"] == OutcomeKind.REJECT_RECORD) is refused
    why = "group shop may not send to a, which its account (shop) does not name"
    assert found["reason"] == (why if refused else "")
    assert dict(unpack_headers(found["headers"]))["cb-group"] == b"shop"
