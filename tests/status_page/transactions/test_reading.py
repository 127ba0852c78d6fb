"""What the thread that follows both topics does with what comes, on a consumer that does what a test tells it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from checkback.operations.in_doubt import in_doubt, newest
from checkback.wire.protocol import HalfPosition
from status_page.transactions.reading import ListStanding
from tests.status_page.transactions.scene import NONSENSE, TOPICS, Record, Set, odd, parked, row


def test_nothing_is_known_before_it_begins(it: Set) -> None:
    assert it.standing == ListStanding(problem="Nobody reads the topics yet.")


def test_rows_come_and_go_in_their_order(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2"), row("0:1", attempt=2), Record(b"0:2", None), row("1:9")]
    it.consumer.logs[TOPICS.parked] = [
        parked("0:5"),
        parked("0:6", "a#1"),
        parked("0:6", "a#2"),
        parked("0:5", ended=True),
    ]
    it.reading.begin()
    it.steps()
    assert it.ids() == ["tx-0:1", "tx-1:9"]
    assert [one.attempt for one in it.index.in_doubt()] == [2, 1]
    assert [one.transaction_id for one in it.index.parked()] == ["a#1", "a#2"]
    assert it.standing == ListStanding(complete=True)


def test_it_says_how_much_is_still_to_be_read(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row(f"0:{number}") for number in range(10)]
    it.reading.begin()
    it.steps(1)
    assert it.standing == ListStanding(behind=7)
    it.steps(3)
    assert it.standing == ListStanding(complete=True)
    it.consumer.logs[TOPICS.status] += [row(f"1:{number}") for number in range(10)]
    it.steps(1)
    assert it.standing == ListStanding(complete=True, behind=7)


FOREIGN = [
    row("0:5"),
    row("1:1"),
    row("0:1", ingested_ms=0),
    row("0:1", ingested_ms=3_600_006),
    row("0:1", attempt=0),
    row("0:1", ingested_ms=-1),
    Record(b"0:1", b"{"),
]


@pytest.mark.parametrize("record", FOREIGN)
def test_a_row_that_the_job_cannot_have_written_is_passed_over_and_counted(record: Record, it: Set) -> None:
    it.consumer.logs[TOPICS.half] = [Record(b"k", b"v")] * 5
    it.consumer.logs[TOPICS.status] = [record, row("0:4")]
    it.reading.begin()
    it.steps()
    assert (it.ids(), it.standing.foreign) == (["tx-0:4"], 1)
    assert [*newest([record, row("0:4")], lambda: {0: 5})] == [HalfPosition(0, 4)]
    it.consumer.logs[TOPICS.half] *= 2
    it.consumer.logs[TOPICS.status].append(row("0:9"))
    it.steps()
    assert it.ids() == ["tx-0:4", "tx-0:9"], "the half topic has grown meanwhile"


def test_where_the_half_topic_ends_is_not_known_its_rows_are_believed(it: Set) -> None:
    it.consumer.logs[TOPICS.half] = [Record(b"k", b"v")]
    it.consumer.logs[TOPICS.status] = [row("0:7")]
    it.reading.begin()
    it.consumer.ends_fail = KafkaTimeoutError("late")
    it.reading.step(0)
    assert it.ids() == ["tx-0:7"]


@pytest.mark.parametrize("record", NONSENSE)
def test_what_the_job_did_not_write_changes_nothing(record: Record, it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("9:9"), record, row("9:8")]
    it.reading.begin()
    it.steps()
    assert it.ids() == ["tx-9:8", "tx-9:9"]
    assert it.standing.complete


@pytest.mark.parametrize(
    "record",
    [
        Record(None, b"x"),
        Record(None, b"x", [("cb-half", None)]),
        Record(None, b"x", [("cb-half", b"\xff")]),
        Record(None, b"x", [("cb-half", b"0:1"), ("cb-id", b"x")]),
        parked("1:2:3"),
        parked("0:1", "\u20ac" * 30),
        parked("0:7", ended=True),
    ],
)
def test_nor_does_it_among_parked_messages(record: Record, it: Set) -> None:
    it.consumer.logs[TOPICS.parked] = [parked("9:9"), record, parked("9:8")]
    it.reading.begin()
    it.steps()
    assert [str(one.half) for one in it.index.parked()] == ["9:8", "9:9"]


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5)


ANSWER = ("answered_ms", "misses", "remark")


VALUES = st.dictionaries(
    st.sampled_from([*json.loads(row("0:1").value or b""), "asked_ms", "last_answer", *ANSWER]), JSON
)


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(["0:1", "0:2"]), VALUES | st.none())))
def test_whatever_stands_in_a_row_the_index_has_what_a_reader_finds(rows: list[tuple[str, Any]]) -> None:
    """The reader is :func:`checkback.operations.in_doubt.newest`, as the command line uses it."""
    it = Set()
    records = [Record(half.encode(), None) if said is None else row(half, **said) for half, said in rows]
    it.consumer.logs[TOPICS.status] = records
    it.reading.begin()
    it.steps(len(records) // 3 + 2)
    stored = {one.half: one for one in it.index.in_doubt()}
    found = newest(records)
    assert stored == {half: one for half, one in found.items() if not odd(one)}


def test_a_row_says_what_its_json_says() -> None:
    said = {"asked_ms": 9, "last_answer": "unknown", "next_check_ms": 11}
    assert in_doubt(row("0:1", **said).value or b"")[6:] == (5, 9, "unknown", 11, 0, 0, "")
    said |= {"answered_ms": 10, "misses": 2, "remark": "busy"}
    assert in_doubt(row("0:1", **said).value or b"")[6:] == (5, 9, "unknown", 11, 10, 2, "busy")
