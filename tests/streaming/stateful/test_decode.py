"""Decoding, on a real Spark: what the protocol allows becomes columns, everything else a row with a reason."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, TransactionOptions, half_headers, op_headers
from state import Event
from state.outcomes import CONFLICT_REASON, FOREIGN_REASON, LATE_REASON
from state.segment import BEYOND_REASON
from streaming.batch.headers import application_headers, unpack_headers
from streaming.checkpoint.ends_in_plan import EndsInPlan
from streaming.stateful.decode import BROKEN_KIND, HALF_KIND, OP_KIND, decode

TOPICS = Topics()
SCHEMA = (
    "topic string, partition int, offset long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, timestamp timestamp"
)
SIZE = 64
WHEN = datetime(2026, 11, 23, tzinfo=UTC)

Headers = list[tuple[str, bytes | None]]


def decoded(
    spark: SparkSession, *records: tuple[str, Headers | None], key: bytes = b"key", value: bytes = b"value"
) -> list[Row]:
    """Decode records of the half topic (``half``) or the op topic (``op``), all on partition 1, offsets from 100."""
    rows = [
        (
            TOPICS.half if kind == "half" else TOPICS.op,
            1,
            100 + at,
            key,
            value,
            headers,
            WHEN,
        )
        for at, (kind, headers) in enumerate(records)
    ]
    return sorted(decode(spark.createDataFrame(rows, SCHEMA), TOPICS, SIZE).collect(), key=lambda row: row.op_offset)


def half(*more: tuple[str, bytes | None], **changed: bytes | None) -> tuple[str, Headers | None]:
    """A half message with further headers; a keyword changes one of ours (``id=b""``), None leaves it out."""
    ours: dict[str, bytes | None] = {"id": b"tx-1", "group": b"shop", "topic": b"orders", **changed}
    return "half", [(f"cb-{name}", value) for name, value in ours.items() if value is not None] + list(more)


def op(*more: tuple[str, bytes | None], **changed: bytes | None) -> tuple[str, Headers | None]:
    """An op for the half message 1:70, changed likewise."""
    ours: dict[str, bytes | None] = {"id": b"tx-1", "group": b"shop", "half": b"1:70"}
    ours |= {"action": b"commit", "source": b"producer", **changed}
    return "op", [(f"cb-{name}", value) for name, value in ours.items() if value is not None] + list(more)


def test_the_sdks_own_headers(spark: SparkSession) -> None:
    application = [("trace", b"1"), ("trace", b"\xff\x00"), ("empty", b"")]
    (row,) = decoded(spark, ("half", list(half_headers("tx-1", "shop", "orders", application))))
    assert (row.kind, row.half_partition, row.segment, row.offset) == (HALF_KIND, 1, 1, 100)
    assert (row.transaction_id, row.group, row.topic) == ("tx-1", "shop", "orders")
    assert (row.options, row.reason) == (None, None)
    assert row.headers == '[{"key":"trace","value":"MQ=="},{"key":"trace","value":"/wA="},{"key":"empty","value":""}]'


def test_headers_in_any_order_give_the_same(spark: SparkSession) -> None:
    ours = half_headers("tx-1", "shop", "orders")
    application: Headers = [("a", b"1"), ("b", None), ("a", b"2")]
    mixed = [application[0], ours[2], application[1], ours[0], ours[1], application[2]]
    first, second = decoded(spark, ("half", [*ours, *application]), ("half", mixed))
    unlike = {"offset", "op_offset", "headers"}
    assert {k: v for k, v in first.asDict().items() if k not in unlike} == {
        k: v for k, v in second.asDict().items() if k not in unlike
    }
    assert application_headers(first.headers) == application_headers(second.headers) == application


def test_optional_headers_and_unknown_ones_of_ours(spark: SparkSession) -> None:
    more = [("cb-partition", b"3"), ("x", b"1"), ("cb-immunity-ms", b"60000"), ("cb-check-max", b"4"), ("cb-new", b"?")]
    (row,) = decoded(spark, half(*more))
    assert row.options == "3,60000,4,,"
    assert application_headers(row.headers) == [("x", b"1")]


def test_options_are_spelled_in_their_order(spark: SparkSession) -> None:
    options = TransactionOptions(check_immunity_ms=60_000, check_max=0, deliver_at_ms=1_767_225_600_000)
    wire = half_headers("tx-1", "shop", "orders", [("a", b"1")], options=options, messages=2)
    (row,) = decoded(spark, ("half", list(wire)))
    assert (row.reason, row.options) == (None, ",60000,0,1767225600000,2")
    assert application_headers(row.headers) == [("a", b"1")]


@pytest.mark.parametrize(
    ("action", "source", "event"),
    [
        (Action.COMMIT, Source.PRODUCER, Event.COMMIT),
        (Action.COMMIT, Source.CHECK, Event.CHECK_COMMIT),
        (Action.COMMIT, Source.OPERATOR, Event.OPERATOR_COMMIT),
        (Action.ROLLBACK, Source.PRODUCER, Event.ROLLBACK),
        (Action.ROLLBACK, Source.CHECK, Event.CHECK_ROLLBACK),
        (Action.ROLLBACK, Source.OPERATOR, Event.OPERATOR_ROLLBACK),
        (Action.RESUME, Source.OPERATOR, Event.RESUME),
        (Action.UNKNOWN, Source.OPERATOR, Event.UNKNOWN),
        (Action.UNKNOWN, Source.PRODUCER, Event.UNKNOWN),
        (Action.UNKNOWN, Source.CHECK, Event.CHECK_UNKNOWN),
        (Action.UNREACHABLE, Source.CHECK, Event.CHECK_UNREACHABLE),
    ],
)
def test_ops(spark: SparkSession, action: Action, source: Source, event: Event) -> None:
    (row,) = decoded(spark, ("op", list(op_headers("tx-1", "shop", HalfPosition(1, 70), action, source))))
    assert (row.kind, row.half_partition, row.segment, row.offset, row.op_offset) == (OP_KIND, 1, 1, 70, 100)
    assert (row.event, row.transaction_id, row.group, row.headers) == (event, "tx-1", "shop", None)


WRONG: dict[str, tuple[str, Headers | None]] = {
    "a header's name holds a zero byte": half(("a\0cb-b", b"1")),
    "cb-id is missing": half(id=None),
    "cb-id is longer than 64 bytes": half(id=b"x" * 65),
    "cb-id is not UTF-8": half(id=b"\xff\xfe"),
    "cb-group is missing": half(group=b""),
    "cb-group is longer than 255 bytes": half(group=b"x" * 256),
    "cb-topic is missing or is not a valid topic name": half(topic=b"no topic!"),
    "cb-topic is one of Checkback's or Kafka's own": half(topic=b"cb.half"),
    "a cb- header is there more than once": half(("cb-id", b"tx-2")),
    "cb-version is later than this job's: upgrade the job": half(("cb-version", b"2")),
    "cb-version is not a number": half(("cb-version", b"one")),
    "cb-partition is not a number": half(("cb-partition", b"-1")),
    "cb-immunity-ms is not a number of milliseconds": half(("cb-immunity-ms", b"1s")),
    "cb-check-max is not a number": half(("cb-check-max", b"")),
    "cb-deliver-at is not a number of milliseconds": half(("cb-deliver-at", b"tomorrow")),
    "cb-messages is not a number": half(("cb-messages", b"")),
    "cb-partition is for one message, not for several": half(("cb-messages", b"2"), ("cb-partition", b"1")),
    "the headers of an op are larger than 16 KiB together": op(("note", b"x" * 16_384)),
    "cb-half is not partition:offset": op(half=b"1:-70"),
    "cb-half names an offset that no log has": op(half=b"1:1000000000000000"),
    "it lies on another partition than its cb-half": op(half=b"0:70"),
    "cb-action is not one we know": op(action=b"maybe"),
    "cb-source is not one we know": op(source=b"me"),
    "only a check can find a producer unreachable": op(action=b"unreachable"),
    "only an operator can resume": op(action=b"resume"),
}

ALSO_WRONG: list[tuple[str, tuple[str, Headers | None]]] = [
    ("a header's name holds a zero byte", op(("\0", None))),
    ("a header's name holds a zero byte", ("half", [("cb-id\0", b"tx-1")])),
    ("cb-topic is missing or is not a valid topic name", half(topic=b"orders\n")),
    ("cb-topic is missing or is not a valid topic name", half(topic=b"..")),
    ("cb-topic is one of Checkback's or Kafka's own", half(topic=b"__consumer_offsets")),
    ("cb-partition is not a number", half(("cb-partition", b"3\n"))),
    ("cb-messages is not a number", half(("cb-messages", b"\xff"))),
    ("cb-half is not partition:offset", op(half=b"01:70")),
    ("cb-half is not partition:offset", op(half=b"-1:70")),
    ("cb-half is not partition:offset", op(half=b"1:70:2")),
    ("cb-half is not partition:offset", op(half=b"1:99999999999999999999")),
    ("cb-id is missing", ("half", None)),
    ("cb-id is missing", ("op", [])),
]


def test_the_document_has_every_reason() -> None:
    text = (Path(__file__).parents[3] / "docs/protocol.md").read_text(encoding="utf-8")
    said_by_the_state = (CONFLICT_REASON, FOREIGN_REASON, LATE_REASON)
    assert [reason for reason in (*WRONG, *TOO_LARGE, *said_by_the_state) if f"`{reason}`" not in text] == []


def test_what_breaks_the_protocol_is_kept_whole_with_its_reason(spark: SparkSession) -> None:
    cases = [*WRONG.items(), *ALSO_WRONG]
    rows = decoded(spark, *(record for _, record in cases))
    assert [row.reason for row in rows] == [reason for reason, _ in cases]
    for row, (_, (kind, headers)) in zip(rows, cases, strict=True):
        assert (row.kind, row.segment, row.offset) == (BROKEN_KIND, -1, row.op_offset)
        assert (row.topic, row.key, row.value) == (
            TOPICS.half if kind == "half" else TOPICS.op,
            b"key",
            b"value",
        )
        assert unpack_headers(row.headers) == (headers or [])
        assert row.options is None


MIB = 1 << 20
TOO_LARGE = (
    "its value is larger than 16 MiB",
    "its key is larger than 1 MiB",
    "it has more than 1,000 headers",
    "its headers are larger than 1 MiB together",
)


def test_of_what_is_too_large_the_head_goes_on_with_a_note_of_its_size(spark: SparkSession) -> None:
    value, key, count, large = TOO_LARGE
    many: list[tuple[str, bytes]] = [("a", b"")] * 998
    (row,) = decoded(spark, half(), value=bytes(16 * MIB + 1))
    assert (row.reason, row.value, row.key) == (value, bytes(65_536), b"key")
    # cb-id tx-1, cb-group shop, cb-topic orders
    assert unpack_headers(row.headers) == [("cb-cut", b"3 16777217 35"), *(half()[1] or [])]
    (row,) = decoded(spark, op(half=b"?"), key=bytes(MIB + 1))
    assert (row.reason, row.key) == (key, bytes(1024))
    rows = decoded(spark, half(*many), ("half", [*many, *many]), half(("a", b"x" * MIB)), op(id=b"x" * MIB))
    assert [row.reason for row in rows] == [count, count, large, large]
    assert [len(unpack_headers(row.headers)) for row in rows] == [17, 17, 5, 6]
    assert all(len(row.headers) < 3_000 for row in rows)
    assert {(row.kind, row.segment) for row in rows} == {(BROKEN_KIND, -1)}


def test_what_is_as_large_as_may_be_is_taken(spark: SparkSession) -> None:
    (row,) = decoded(spark, half(("a", b"x" * (MIB - 36))), key=bytes(MIB), value=bytes(16 * MIB))
    assert (row.reason, row.kind, row.value, row.key) == (None, HALF_KIND, None, None)
    assert row.left_out == 18 * MIB
    held = [("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), ("a", b"x" * (MIB + 1)), *([("b", b"")] * 1_000)]
    (row,) = decoded(spark, half(*held))
    assert row.reason is None


def test_of_an_ops_remark_a_little_is_kept(spark: SparkSession) -> None:
    (row,) = decoded(spark, op(), value=b"x" * 10_000, key=b"y" * 10_000)
    assert (row.reason, row.kind, row.value, row.key) == (None, OP_KIND, b"x" * 4096, b"y" * 4096)
    (row,) = decoded(spark, op(half=b"?"), value=b"x" * 10_000)
    assert (row.kind, len(row.value)) == (BROKEN_KIND, 10_000)


def test_the_last_offset_that_an_op_may_name(spark: SparkSession) -> None:
    (row,) = decoded(spark, op(half=b"1:999999999999999"))
    assert (row.reason, row.offset) == (None, 10**15 - 1)


def test_an_op_with_further_headers_is_kept_whole(spark: SparkSession) -> None:
    (row,) = decoded(spark, op(("note", b"by hand")))
    assert row.reason is None
    assert unpack_headers(row.headers)[-1] == ("note", b"by hand")


def test_a_good_record_beside_broken_ones_is_decoded(spark: SparkSession) -> None:
    rows = decoded(spark, half(id=None), half(), op(half=b"?"), op())
    assert [row.kind for row in rows] == [BROKEN_KIND, HALF_KIND, BROKEN_KIND, OP_KIND]


def test_the_reserved_prefix_is_the_protocols() -> None:
    assert protocol.RESERVED_PREFIX == "cb-"


def test_a_half_message_that_carries_its_own_decision(spark: SparkSession) -> None:
    wire = protocol.decided(
        half_headers("tx-1", "shop", "orders", [("a", b"1")], options=TransactionOptions(None, None, 5))
    )
    held = half(("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), id=b"i" * 74)
    parked = half(("cb-action", b"park"), ("cb-held", b"0 0 3:4"))
    plain, *kept = decoded(spark, half(), ("half", list(wire)), held, parked)
    assert plain.event == Event.HALF
    assert [row.reason for row in kept] == [None] * 3
    assert [row.event for row in kept] == [Event.HALF_COMMIT, Event.HALF_COMMIT, Event.HALF_PARK]
    assert [row.options for row in kept] == [",,,5,", ",,,,,1", ",,,,,1"]
    assert application_headers(kept[0].headers) == [("a", b"1")]
    assert ("cb-held", b"1 2 3:4") in unpack_headers(kept[1].headers)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("cb-action", b"rollback")], "cb-action of a half message is not one we know"),
        ([("cb-held", b"1 2 3:4")], "cb-held is not what the job writes there"),
        ([("cb-action", b"commit"), ("cb-held", b"1 2 3")], "cb-held is not what the job writes there"),
        (
            [("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), ("cb-messages", b"1")],
            "cb-held is not what the job writes there",
        ),
    ],
)
def test_a_half_message_that_says_something_else_of_itself(spark: SparkSession, headers: Headers, reason: str) -> None:
    (row,) = decoded(spark, half(*headers))
    assert row.reason == reason


def test_a_longer_id_is_for_one_message_of_several_only(spark: SparkSession) -> None:
    longer = {"id": b"i" * 65}
    redeliver = op(action=b"redeliver", source=b"operator", id=b"i" * 74)
    rows = decoded(spark, half(**longer), half(("cb-action", b"commit"), **longer), op(**longer), redeliver)
    assert [row.reason for row in rows] == [*["cb-id is longer than 64 bytes"] * 3, None]
    assert rows[-1].event == Event.REDELIVER
    (row,) = decoded(spark, op(action=b"redeliver"))
    assert row.reason == "only an operator can have a message delivered again"


@pytest.mark.parametrize(
    ("value", "note", "left"),
    [
        (16_000, 100, {"key", "value", "headers"}),
        (16_384, 100, {"key", "headers"}),
        (16_384, 5_000, {"key"}),
        (10, 20_000, {"key"}),
    ],
)
def test_large_content_of_a_half_message_goes_no_further(
    spark: SparkSession, value: int, note: int, left: set[str]
) -> None:
    headers = [("cb-id", b"tx-1"), ("cb-group", b"shop"), ("cb-topic", b"orders"), ("note", b"n" * note)]
    rows = [(TOPICS.half, 1, 100, b"key", b"v" * value, headers, WHEN)]
    rows.append((TOPICS.half, 1, 101, b"key", b"v", headers[:3], WHEN))
    first, second = decode(spark.createDataFrame(rows, SCHEMA), TOPICS, SIZE).collect()
    assert {name for name in ("key", "value", "headers") if first[name] is not None} == left
    size = 3 + value + sum(len(name) + len(content) for name, content in headers)
    assert first.left_out == (-1 if "value" in left else value if "headers" in left else size - 3)
    assert (first.transaction_id, first.kind, second.left_out, second.value) == ("tx-1", HALF_KIND, -1, b"v")


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_half_message_with_a_name_that_could_not_be_read_again_is_refused(spark: SparkSession, size: int) -> None:
    headers = [("cb-id", b"tx-1"), ("cb-group", b"shop"), ("cb-topic", b"orders"), ("\ufffd", b"n")]
    rows = [(TOPICS.half, 1, 100, b"key", b"v" * size, headers, WHEN)]
    (row,) = decode(spark.createDataFrame(rows, SCHEMA), TOPICS, SIZE).collect()
    assert (row.kind, row.reason) == (BROKEN_KIND, "a header's name is not UTF-8, or has U+FFFD in it")


def test_ops_behind_the_end_get_no_segment_and_each_batch_finds_its_own_ends(spark: SparkSession) -> None:
    ends = EndsInPlan(spark)
    names = [f"1:{offset}".encode() for offset in (70, 71, 4_096 * 1_000)]
    rows = [(TOPICS.op, 1, 100 + at, b"key", b"value", op(half=name)[1], WHEN) for at, name in enumerate(names)]
    rows.append((TOPICS.half, 1, 5_000, b"key", b"value", half()[1], WHEN))
    frame = decode(spark.createDataFrame(rows, SCHEMA), TOPICS, SIZE, ends.of)

    def rejected() -> list[int]:
        broken = [row for row in frame.collect() if row.reason == BEYOND_REASON]
        assert all((row.kind, row.segment, row.topic) == (BROKEN_KIND, -1, TOPICS.op) for row in broken)
        return sorted(row.offset for row in broken)

    assert rejected() == []  # nothing is known yet
    ends.tell({0: 5, 1: 71})
    assert rejected() == [101, 102]
    ends.tell({1: 72})
    assert rejected() == [102]
    ends.tell({0: 5})
    assert rejected() == []
