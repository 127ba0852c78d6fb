"""Headers that say what has to do with lanes."""

from typing import Any

import pyarrow as pa
import pytest

from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Topics
from state import Event
from streaming.batch.headers import Headers, packed_headers
from streaming.stateful.arrivals import arrivals_of
from streaming.stateful.broken import WrittenOp, read_half, read_op
from streaming.stateful.decode import COLUMNS, FACT_KINDS, HALF_KIND, OP_KIND, OTHER_OP_KIND
from tests.streaming.stateful.test_arrivals import ADMITS_ALL, SCHEMA, frame

LANE = ("cb-lane", b"0123456789abcdef" * 2)


def op(*headers: tuple[str, bytes | None], action: bytes = b"commit", source: bytes = b"producer") -> Headers:
    ours: Headers = [("cb-id", b"tx"), ("cb-group", b"g"), ("cb-half", b"1:7")]
    return [*ours, ("cb-action", action), ("cb-source", source), *headers]


def test_a_half_message_names_its_lane() -> None:
    plain = {"kind": HALF_KIND, "transaction_id": b"tx", "group": b"g", "topic": b"t", "offset": 9}
    following = packed_headers([LANE, ("trace", b"1")])
    batches = [
        frame(b"v", LANE),
        frame(b"v", offset=8),
        frame(b"v", **{**plain, "headers": None}),
        frame(b"v", **{**plain, "headers": following, "offset": 10}),
    ]
    found = arrivals_of(batches, Topics(), ADMITS_ALL)
    lanes = dict(zip(found.halves["offset"].tolist(), found.halves["lane"].tolist(), strict=True))
    assert lanes == {7: 0, 10: 0, 8: -1, 9: -1}


@pytest.mark.parametrize("name", [b"", b"0" * 31, b"0" * 33, b"G" * 32, b"0123456789ABCDEF" * 2, b"checkback-job-0"])
def test_a_lane_is_named_by_nothing_but_its_own_part(name: bytes) -> None:
    """The check service fences what it names: no transactional id of anybody else may be written there."""
    found = arrivals_of([frame(b"v", ("cb-lane", name))], Topics(), ADMITS_ALL)
    assert found.broken["reason"].tolist() == ["cb-lane is not 32 hex digits, or stands beside cb-action"]


def test_a_half_message_that_is_decided_names_no_lane() -> None:
    found = arrivals_of([frame(b"v", ("cb-action", b"commit"), LANE)], Topics(), ADMITS_ALL)
    assert found.broken["reason"].tolist() == ["cb-lane is not 32 hex digits, or stands beside cb-action"]


@pytest.mark.parametrize("source", [b"producer", b"check", b"operator"])
def test_whoever_says_that_the_lane_has_delivered_says_the_same(source: bytes) -> None:
    said = read_op(op(("cb-delivered", b"1"), source=source), 1)
    assert isinstance(said, WrittenOp)
    assert (said.event, said.settled) == (Event.DELIVERED, 0)


@pytest.mark.parametrize(
    ("action", "source", "event"),
    [
        (b"commit", b"producer", Event.COMMIT),
        (b"rollback", b"operator", Event.OPERATOR_ROLLBACK),
        (b"unknown", b"check", Event.CHECK_UNKNOWN),
        (b"unreachable", b"check", Event.CHECK_UNREACHABLE),
    ],
)
def test_any_op_may_say_that_the_lane_is_settled(action: bytes, source: bytes, event: Event) -> None:
    said = read_op(op(("cb-settled", b"1"), action=action, source=source), 1)
    assert isinstance(said, WrittenOp)
    assert (said.event, said.settled) == (event, 1)


@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        (op(("cb-delivered", b"yes")), "cb-delivered or cb-settled is not 1"),
        (op(("cb-settled", b"")), "cb-delivered or cb-settled is not 1"),
        (op(("cb-settled", b"1"), ("cb-delivered", b"1")), "cb-delivered and cb-settled contradict each other"),
        (op(("cb-delivered", b"1"), action=b"rollback"), "cb-delivered is for cb-action commit"),
        (op(("cb-delivered", b"1"), action=b"unknown"), "cb-delivered is for cb-action commit"),
    ],
)
def test_what_contradicts_itself_is_rejected(headers: Headers, wrong: str) -> None:
    assert read_op(headers, 1) == wrong


def test_absent_is_null() -> None:
    said = read_op(op(("cb-settled", None), ("cb-delivered", None)), 1)
    assert isinstance(said, WrittenOp)
    assert (said.event, said.settled) == (Event.COMMIT, 0)
    half: Headers = [("cb-id", b"tx"), ("cb-group", b"g"), ("cb-topic", b"t"), ("cb-lane", None)]
    assert not isinstance(written := read_half(half, ()), str)
    assert written.lane is None


def test_ops_reach_the_state_with_what_they_say_of_a_lane() -> None:
    given = {"half_partition": 1, "left_out": -1, "time_ms": 5, "value": b"", "offset": 7}
    in_order = {"transaction_id": b"tx", "group": b"g", "topic": b"commit", "source": b"check"}
    rows: list[dict[str, Any]] = [{"kind": OP_KIND, "record_offset": 1, **in_order}]
    for at, fact in enumerate([("cb-settled", b"1"), ("cb-delivered", b"1")], start=2):
        rows.append({"kind": OTHER_OP_KIND, "record_offset": at, "headers": packed_headers(op(fact))})
    rows += [{"kind": kind, "record_offset": kind, **in_order, "source": b"producer"} for kind in FACT_KINDS.values()]
    chunk = pa.RecordBatch.from_pylist([{**dict.fromkeys(COLUMNS), **given, **row} for row in rows], schema=SCHEMA)
    ops = arrivals_of([chunk], Topics(), ADMITS_ALL).ops
    by_place = dict(zip(ops["op_offset"].tolist(), zip(ops["event"], ops["settled"], strict=True), strict=True))
    assert by_place[1] == (Event.CHECK_COMMIT, 0)
    assert by_place[2] == by_place[FACT_KINDS[LaneFact.SETTLED]] == (Event.COMMIT, 1)
    assert by_place[3] == by_place[FACT_KINDS[LaneFact.DELIVERED]] == (Event.DELIVERED, 0)
