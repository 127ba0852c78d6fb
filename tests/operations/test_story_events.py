"""Records as events: what each says, and that nobody's record breaks it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.operations.story_events import EventKind, StoryEvent, delivered, event_of, held_in, remark_of, said
from checkback.wire import protocol
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import Action, HalfPosition, Source
from tests.job_records import status_row
from tests.kafka.made_records import HALF, TOPICS, Record, half, op, parked, refused


def event(record: Record) -> StoryEvent:
    found = event_of(record, TOPICS)
    assert found is not None
    return found


def test_a_half_message() -> None:
    found = event(half(5, (protocol.DELIVER_AT, b"1767225600000"), (protocol.ACTION, b"commit")))
    assert (found.time_ms, found.kind, found.place, found.half) == (5, EventKind.HALF, "cb.half:3:4711", HALF)
    assert (found.transaction_id, found.group, found.topic, found.size) == ("tx", "shop", "orders", 5)
    assert said(found) == "half message of 5 bytes for orders, commit by itself, not before 2026-01-01 00:00:00"


def test_of_a_repeated_header_the_first_counts() -> None:
    assert event(half(5, (protocol.ID, b"forged"), (protocol.TOPIC, b"forged"))).transaction_id == "tx"


def test_a_half_message_of_several() -> None:
    found = event(half(5, (protocol.MESSAGES, b"2")))
    assert found.messages == 2
    assert said(found) == "half message with 2 messages of 5 bytes for orders"


@pytest.mark.parametrize(("action", "kind"), [("commit", EventKind.HELD), ("park", EventKind.UNDELIVERABLE)])
def test_a_half_message_that_the_job_wrote_again(action: str, kind: EventKind) -> None:
    record = half(5, (protocol.ACTION, action.encode()), (protocol.HELD, b"3 1000 1:2"), (protocol.REASON, b"no topic"))
    held = held_in(record)
    assert held is not None
    assert held.origin == HalfPosition(1, 2)
    assert (event(record).kind, event(record).reason) == (kind, "no topic")


def test_an_op_with_an_operators_remark() -> None:
    remark = json.dumps({"who": "ada", "why": "customer called", "by": "checkback commit"}).encode()
    found = event(op(9, Action.COMMIT, Source.OPERATOR, value=remark))
    assert (found.kind, found.action, found.source, found.half) == (EventKind.OP, "commit", "operator", HALF)
    assert (found.who, found.remark, said(found)) == ("ada", "customer called", "commit by operator")


def test_a_producers_remark_names_no_operator() -> None:
    remark = json.dumps({"who": "ada", "why": "customer called"}).encode()
    found = event(op(9, Action.COMMIT, Source.PRODUCER, value=remark))
    assert (found.who, found.remark) == ("", remark.decode())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ("", "")),
        (b"order 17 is in the database", ("", "order 17 is in the database")),
        (b"{}", ("", "{}")),
        (b'{"who": 1, "why": "x"}', ("", '{"who": 1, "why": "x"}')),
        (b'["who", "why"]', ("", '["who", "why"]')),
        (b"\xff", ("", "�")),
        (b"[" * 100_000, ("", "[" * 512)),
        (b'{"who": "a", "why": "' + b"x" * 9_000 + b'"}', ("a", "x" * 512)),
    ],
)
def test_a_remark(value: bytes | None, expected: tuple[str, str]) -> None:
    assert remark_of(value) == expected


def test_a_check() -> None:
    request = CheckRequest("tx", "shop", "orders", b"k", b"v", [("cb-x", b"")], HALF, 3, 15, 1_000)
    key, value, headers = request.to_record()
    found = event(Record(TOPICS.check, 1, 2, 7, key, value, tuple(headers)))
    assert (found.kind, found.half, found.attempt, found.check_max) == (EventKind.CHECK, HALF, 3, 15)
    assert said(found) == "check requested, for attempt 3 of 15"


def test_what_is_parked_and_what_became_of_it() -> None:
    found = event(parked(7, (protocol.REASON, b"too old")))
    assert (found.kind, found.half, found.reason, said(found)) == (EventKind.PARKED, HALF, "too old", "parked")
    ended = event(parked(8, (protocol.ENDED, b"rolled back")))
    assert (ended.kind, said(ended)) == (EventKind.NOT_PARKED, "no longer parked: rolled back")


def test_an_op_that_was_not_taken() -> None:
    written = op(1, Action.COMMIT).headers
    found = event(refused(7, "cb.op:3:7", "it contradicts", *written))
    assert (found.kind, found.half, found.refused) == (EventKind.REFUSED, HALF, "cb.op:3:7")
    assert said(found) == "refused, the commit by producer at cb.op:3:7"


def test_a_half_message_that_was_not_taken() -> None:
    found = event(refused(7, "cb.half:3:4711", "cb-id is missing"))
    assert (found.kind, found.half, found.reason) == (EventKind.REJECTED, HALF, "cb-id is missing")


def test_a_row_of_those_in_doubt() -> None:
    value = json.dumps(status_row("tx", "3:4711", attempt=2)).encode()
    found = event(Record(TOPICS.status, 0, 1, 7, b"3:4711", value))
    assert (found.kind, found.half, said(found)) == (EventKind.IN_DOUBT, HALF, "in doubt, attempt 2 of 15")
    ended = event(Record(TOPICS.status, 0, 2, 8, b"3:4711", None))
    assert (ended.kind, ended.half) == (EventKind.NOT_IN_DOUBT, HALF)
    assert event_of(Record(TOPICS.status, 0, 2, 8, b"tx", b"{}"), TOPICS) is None
    assert event_of(Record(TOPICS.status, 0, 2, 8, b"3:4711", b"{}"), TOPICS) is None


def test_what_arrived() -> None:
    found = delivered(Record("orders", 1, 2, 7, b"k", b"v", ((protocol.ID, b"tx#2"),)))
    assert (found.kind, found.place, found.transaction_id) == (EventKind.DELIVERED, "orders:1:2", "tx#2")
    assert said(found) == "delivered to orders"


def test_a_topic_that_says_nothing_of_transactions() -> None:
    assert event_of(Record(TOPICS.progress, 0, 0, 1), TOPICS) is None


NAMES = st.sampled_from([name for name in vars(protocol).values() if isinstance(name, str) and name.startswith("cb-")])
VALUES = st.none() | st.binary(max_size=40) | st.sampled_from([b"3:4711", b"cb.half:3:1", b"1 2 3:4", b"9" * 30])


@given(
    st.sampled_from(TOPICS.all()),
    st.lists(st.tuples(NAMES, VALUES)),
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.integers(0, 1 << 62),
)
def test_whatever_a_record_holds_it_is_told(
    topic: str, headers: list[Any], key: bytes | None, value: bytes | None, time_ms: int
) -> None:
    record = Record(topic, 0, 1, time_ms, key, value, tuple(headers))
    found = event_of(record, TOPICS)
    held_in(record)
    assert found is None or said(found)
