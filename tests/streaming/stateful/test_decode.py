"""Decoding, on a real Spark and in Python: what keeps the protocol becomes columns, everything else has a reason."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from checkback.wire import protocol
from checkback.wire.lanes import LaneFact, of_lane
from checkback.wire.message_json import pack
from checkback.wire.protocol import Action, HalfPosition, Message, Source, TransactionOptions, half_headers, op_headers
from state import BUNDLE, Event
from state.outcomes import CONFLICT_REASON, FOREIGN_REASON, LATE_REASON
from state.segment import BEYOND_REASON
from streaming.batch.headers import application_headers, unpack_headers
from streaming.checkpoint.ends_in_plan import EndsInPlan
from streaming.stateful.broken import WrittenHalf, read_half
from streaming.stateful.decode import NO_SEGMENT, decode
from tests.streaming.stateful.decoding import (
    BROKEN,
    HALF,
    OP,
    SCHEMA,
    SIZE,
    TOPICS,
    WHEN,
    Headers,
    decoded,
    half,
    op,
    read,
)
from tests.streaming.stateful.test_decode_large import TOO_LARGE

LANE = "0123456789abcdef" * 2
NOT_HELD = "cb-held is not what the job writes there"


def test_the_sdks_own_headers(spark: SparkSession) -> None:
    application = [("trace", b"1"), ("trace", b"\xff\x00"), ("empty", b"")]
    (row,) = decoded(spark, ("half", list(half_headers("tx-1", "shop", "orders", application))))
    assert (row.kind, row.half_partition, row.segment, row.offset) == (HALF, 1, 1, 100)
    assert (row.transaction_id, row.group, row.topic) == ("tx-1", "shop", "orders")
    assert (row.partition, row.immunity_ms, row.check_max, row.deliver_at_ms) == (-1, -1, -1, -1)
    assert row.headers == '[{"key":"trace","value":"MQ=="},{"key":"trace","value":"/wA="},{"key":"empty","value":""}]'


def test_headers_in_any_order_give_the_same(spark: SparkSession) -> None:
    ours = half_headers("tx-1", "shop", "orders")
    application: Headers = [("a", b"1"), ("b", None), ("a", b"2")]
    mixed = [application[0], ours[2], application[1], ours[0], ours[1], application[2]]
    first, second = decoded(spark, ("half", [*ours, *application]), ("half", mixed))
    unlike = {"offset", "record_offset", "headers"}
    alike = [{name: value for name, value in vars(one).items() if name not in unlike} for one in (first, second)]
    assert alike[0] == alike[1]
    assert application_headers(first.headers) == application_headers(second.headers) == application


def test_a_lane_behind_the_sdks_headers(spark: SparkSession) -> None:
    """In our SDK's order, which is read by place, and elsewhere, which gives the same."""
    ours, application = half_headers("tx-1", "shop", "orders"), [("trace", b"1"), ("b", b"")]
    in_order: Headers = [*of_lane(ours, LANE), *application]
    elsewhere: Headers = [*ours, *application, (protocol.LANE, LANE.encode())]
    wrong: Headers = [*ours, (protocol.LANE, b"checkback-job-0"), *application]
    absent: Headers = [*ours, (protocol.LANE, None), *application]
    rows = decoded(spark, *(("half", headers) for headers in (in_order, elsewhere, wrong, absent)))
    assert [row.kind for row in rows] == [HALF, HALF, BROKEN, HALF]
    assert [(row.lane, row.lane_name) for row in rows if row.kind == HALF] == [(0, LANE), (0, LANE), (-1, None)]
    assert unpack_headers(rows[0].headers) == application
    assert application_headers(rows[1].headers) == application_headers(rows[3].headers) == application
    assert rows[2].reason == "cb-lane is not 32 hex digits, or stands beside cb-action"
    assert unpack_headers(rows[2].headers) == wrong


@pytest.mark.parametrize("fact", LaneFact)
def test_what_is_known_of_a_lane_behind_an_ops_headers(spark: SparkSession, fact: LaneFact) -> None:
    def said(action: Action, source: Source, header: tuple[str, bytes]) -> tuple[str, Headers]:
        return "op", [*op_headers("tx-1", "shop", HalfPosition(1, 70), action, source), header]

    name, _ = fact.header
    given = [
        said(Action.COMMIT, Source.PRODUCER, fact.header),
        ("op", [fact.header, *said(Action.COMMIT, Source.CHECK, fact.header)[1][:-1]]),
        said(Action.UNKNOWN, Source.CHECK, fact.header),
        said(Action.COMMIT, Source.PRODUCER, (name, b"yes")),
        said(Action.COMMIT, Source.PRODUCER, ("cb-id", b"tx-1")),
    ]
    rows = decoded(spark, *given)
    delivered = fact == LaneFact.DELIVERED
    events = [Event.DELIVERED] * 2 if delivered else [Event.COMMIT, Event.CHECK_COMMIT, Event.CHECK_UNKNOWN]
    assert [row.event for row in rows if row.kind == OP] == events
    assert {row.settled for row in rows if row.kind == OP} == {int(not delivered)}
    assert rows[0].headers is None, "its place says it"
    broken = [row for row in rows if row.kind == BROKEN]
    wrong = given[2:] if delivered else given[3:]
    assert [unpack_headers(row.headers) for row in broken] == [headers for _, headers in wrong]


def test_optional_headers_and_unknown_ones_of_ours(spark: SparkSession) -> None:
    more = [("cb-partition", b"3"), ("x", b"1"), ("cb-immunity-ms", b"60000"), ("cb-check-max", b"4"), ("cb-new", b"?")]
    (row,) = decoded(spark, half(*more))
    assert (row.partition, row.immunity_ms, row.check_max, row.deliver_at_ms) == (3, 60_000, 4, -1)
    assert application_headers(row.headers) == [("x", b"1")]


def test_options_are_spelled_in_their_order(spark: SparkSession) -> None:
    options = TransactionOptions(check_immunity_ms=60_000, check_max=0, deliver_at_ms=1_767_225_600_000)
    wire = half_headers("tx-1", "shop", "orders", [("a", b"1")], options=options, messages=2)
    (row,) = decoded(spark, ("half", list(wire)), value=pack([Message("a", b"1"), Message("b", b"2")]))
    assert (row.kind, row.partition, row.immunity_ms, row.check_max) == (HALF, BUNDLE, 60_000, 0)
    assert row.deliver_at_ms == 1_767_225_600_000
    assert application_headers(row.headers) == [("a", b"1")]


EVENTS = {
    (Action.COMMIT, Source.PRODUCER): Event.COMMIT,
    (Action.COMMIT, Source.CHECK): Event.CHECK_COMMIT,
    (Action.COMMIT, Source.OPERATOR): Event.OPERATOR_COMMIT,
    (Action.ROLLBACK, Source.PRODUCER): Event.ROLLBACK,
    (Action.ROLLBACK, Source.CHECK): Event.CHECK_ROLLBACK,
    (Action.ROLLBACK, Source.OPERATOR): Event.OPERATOR_ROLLBACK,
    (Action.RESUME, Source.OPERATOR): Event.RESUME,
    (Action.UNKNOWN, Source.OPERATOR): Event.UNKNOWN,
    (Action.UNKNOWN, Source.PRODUCER): Event.UNKNOWN,
    (Action.UNKNOWN, Source.CHECK): Event.CHECK_UNKNOWN,
    (Action.UNREACHABLE, Source.CHECK): Event.CHECK_UNREACHABLE,
}


def test_ops(spark: SparkSession) -> None:
    half_message = HalfPosition(1, 70)
    records: list[tuple[str, Headers]] = [
        ("op", [*op_headers("tx-1", "shop", half_message, action, source)]) for action, source in EVENTS
    ]
    rows = decoded(spark, *records)
    for op_offset, (row, event) in enumerate(zip(rows, EVENTS.values(), strict=True), start=100):
        assert (row.kind, row.half_partition, row.segment, row.half_offset) == (OP, 1, 1, 70)
        assert (row.op_offset, row.event) == (op_offset, event)
        assert (row.transaction_id, row.group, row.headers) == ("tx-1", "shop", None)


WRONG: dict[str, tuple[str, Headers | None]] = {
    "a header's name holds a zero byte": half(("a\0cb-b", b"1")),
    "cb-id is missing": half(id=None),
    "cb-id is longer than 64 bytes": half(id=b"x" * 65),
    "cb-id is not UTF-8": half(id=b"\xff\xfe"),
    "cb-group is missing": half(group=b""),
    "cb-group is longer than 255 bytes": half(group=b"x" * 256),
    "cb-group has a zero byte": half(group=b"shop\0x"),
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
    ("cb-action of a half message is not one we know", half(("cb-action", b"rollback"))),
    (NOT_HELD, half(("cb-held", b"1 2 3:4"))),
    (NOT_HELD, half(("cb-action", b"commit"), ("cb-held", b"1 2 3"))),
    (NOT_HELD, half(("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), ("cb-messages", b"1"))),
]


def test_the_document_has_every_reason() -> None:
    text = (Path(__file__).parents[3] / "docs/protocol.md").read_text(encoding="utf-8")
    said_by_the_state = (CONFLICT_REASON, FOREIGN_REASON, LATE_REASON)
    assert [reason for reason in (*WRONG, *TOO_LARGE, *said_by_the_state) if f"`{reason}`" not in text] == []


def test_what_breaks_the_protocol_is_kept_whole_with_its_reason(spark: SparkSession) -> None:
    cases = [*WRONG.items(), *ALSO_WRONG]
    good_half, *rows, good_op = decoded(spark, half(), *(record for _, record in cases), op())
    assert (good_half.kind, good_op.kind) == (HALF, OP)
    assert [row.reason for row in rows] == [reason for reason, _ in cases]
    for row, (_, (kind, headers)) in zip(rows, cases, strict=True):
        assert (row.kind, row.offset) == (BROKEN, row.record_offset)
        assert kind == "half" or row.segment in {NO_SEGMENT, 1}, "an op gets no segment but the one that it names"
        assert (row.topic, row.key, row.value) == (TOPICS.half if kind == "half" else TOPICS.op, b"key", b"value")
        assert unpack_headers(row.headers) == (headers or [])


def test_of_an_ops_remark_a_little_is_kept(spark: SparkSession) -> None:
    (row,) = decoded(spark, op(), value=b"x" * 10_000, key=b"y" * 10_000)
    assert (row.reason, row.kind, row.value, row.key) == (None, OP, b"x" * 4096, b"y" * 4096)
    (row,) = decoded(spark, op(half=b"?"), value=b"x" * 10_000)
    assert (row.kind, len(row.value)) == (BROKEN, 10_000)


def test_an_op_with_further_headers_is_kept_whole_and_may_name_the_last_offset(spark: SparkSession) -> None:
    noted, last = decoded(spark, op(("note", b"by hand")), op(half=b"1:999999999999999"))
    assert noted.reason is None
    assert unpack_headers(noted.headers)[-1] == ("note", b"by hand")
    assert (last.kind, last.half_offset) == (OP, 10**15 - 1)


def test_the_reserved_prefix_is_the_protocols() -> None:
    assert protocol.RESERVED_PREFIX == "cb-"


def test_a_half_message_that_carries_its_own_decision(spark: SparkSession) -> None:
    options = TransactionOptions(None, None, 5)
    wire = protocol.decided(half_headers("tx-1", "shop", "orders", [("a", b"1")], options=options))
    held = half(("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), id=b"i" * 74)
    parked = half(("cb-action", b"park"), ("cb-held", b"0 0 3:4"))
    plain, *kept = decoded(spark, half(), ("half", list(wire)), held, parked)
    assert plain.event == Event.HALF
    assert [row.reason for row in kept] == [None] * 3
    assert [row.event for row in kept] == [Event.HALF_COMMIT, Event.HALF_COMMIT, Event.HALF_PARK]
    assert [row.deliver_at_ms for row in kept] == [5, -1, -1]
    records: list[tuple[str, Headers | None]] = [("half", list(wire)), held, parked]
    written = [read_half(headers or [], TOPICS.all()) for _, headers in records]
    assert [isinstance(one, WrittenHalf) and one.held for one in written] == [False, True, True]
    assert application_headers(kept[0].headers) == [("a", b"1")]
    assert ("cb-held", b"1 2 3:4") in unpack_headers(kept[1].headers)


def test_a_longer_id_is_for_one_message_of_several_only(spark: SparkSession) -> None:
    longer = {"id": b"i" * 65}
    redeliver = op(action=b"redeliver", source=b"operator", id=b"i" * 74)
    rows = decoded(spark, half(**longer), half(("cb-action", b"commit"), **longer), op(**longer), redeliver)
    assert [row.reason for row in rows] == [*["cb-id is longer than 64 bytes"] * 3, None]
    assert rows[-1].event == Event.REDELIVER
    (row,) = decoded(spark, op(action=b"redeliver"))
    assert row.reason == "only an operator can have a message delivered again"


def test_ops_behind_the_end_get_no_segment_and_each_batch_finds_its_own_ends(spark: SparkSession) -> None:
    ends = EndsInPlan(spark)
    names = [f"1:{offset}".encode() for offset in (70, 71, 4_096 * 1_000)]
    rows = [(TOPICS.op, 1, 100 + at, b"key", b"value", op(half=name)[1], WHEN) for at, name in enumerate(names)]
    rows.append((TOPICS.half, 1, 5_000, b"key", b"value", half()[1], WHEN))
    frame = decode(spark.createDataFrame(rows, SCHEMA), TOPICS, SIZE, ends.of)

    def rejected() -> list[int]:
        broken = [row for row in read(frame) if row.reason == BEYOND_REASON]
        assert all((row.kind, row.segment, row.topic) == (BROKEN, NO_SEGMENT, TOPICS.op) for row in broken)
        return sorted(row.offset for row in broken)

    assert rejected() == []  # nothing is known yet
    ends.tell({0: 5, 1: 71})
    assert rejected() == [101, 102]
    ends.tell({1: 72})
    assert rejected() == [102]
    ends.tell({0: 5})
    assert rejected() == []
