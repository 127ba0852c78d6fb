"""What the thread that follows both topics does with what comes, on a consumer that does what a test tells it."""

import json
import sqlite3
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from checkback.operations.in_doubt import MOST_REMARK_BYTES, in_doubt, newest
from checkback.wire.protocol import HalfPosition
from status_page.transactions.following import Follower
from status_page.transactions.index import Index
from status_page.transactions.reading import IndexReader
from status_page.transactions.schema import PARKED, STATUS
from status_page.transactions.standing import ListStanding, ReadingProgress
from tests.place import wait_until
from tests.status_page.transactions.topics_fake import TOPICS, FakeConsumer, Record, parked, row


class Set:
    """A reading with its parts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.consumer = FakeConsumer()
        self.index = Index()
        self.progress = ReadingProgress(lambda: self.now)
        self.reading = IndexReader(TOPICS, self.index, self.consumer, self.progress)

    def steps(self, number: int = 5, seconds: float = 11.0) -> None:
        for _ in range(number):
            self.now += seconds
            self.reading.step(0)

    def ids(self) -> list[str]:
        return [one.transaction_id for one in self.index.in_doubt()]

    @property
    def standing(self) -> ListStanding:
        return self.progress.standing()


@pytest.fixture
def it() -> Set:
    return Set()


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


NONSENSE = [
    Record(None, b"x"),
    Record(b"\xff", b"x"),
    Record(b"0:1:2", b"x"),
    Record(b"tx-17", row("0:1").value),
    Record(b"0:3", b"{"),
    Record(b"0:3", b"[" * 100_000),
    Record(b"0:3", b"[]"),
    Record(b"0:3", b'"x"'),
    Record(b"0:3", b"\xff"),
    row("0:4", half="0:5"),
    row("0:4", half=4),
    row("0:4", half=None),
    row("0:4", attempt=float("inf")),
    row("0:4", attempt="x"),
    row("0:4", ingested_ms=None),
    row("0:4", id="\ud800"),
    row("0:4", id="x" * 1_000),
    row("0:4", ingested_ms=10**400),
]


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


@settings(max_examples=80, deadline=None)
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


def odd(found: Any) -> bool:
    """Whether the job could not have written it: then it is not kept."""
    numbers = [found.attempt, found.check_max, found.ingested_ms, found.asked_ms, found.next_check_ms]
    numbers += [found.answered_ms, found.misses]
    names = [(found.transaction_id, 74), (found.group, 255), (found.topic, 249), (found.last_answer, 74)]
    names += [(found.remark, MOST_REMARK_BYTES)]
    return any(not 0 <= number < 2**63 for number in numbers) or any(
        len(name.encode(errors="surrogatepass")) > most or name != name.encode(errors="replace").decode()
        for name, most in names
    )


def test_a_topic_that_was_made_again_is_read_again(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2")]
    it.reading.begin()
    it.steps()
    it.consumer.make(TOPICS.status)
    it.consumer.logs[TOPICS.status] = [row("5:1"), row("5:2"), row("5:3")]
    it.steps()
    assert it.ids() == ["tx-5:1", "tx-5:2", "tx-5:3"]


def test_a_topic_that_has_lost_records_is_read_again(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2")]
    it.consumer.logs[TOPICS.parked] = [parked("0:5"), parked("0:6"), parked("0:7")]
    it.reading.begin()
    it.steps()
    it.consumer.logs[TOPICS.status].pop()
    it.steps()
    assert it.ids() == ["tx-0:1"]
    it.consumer.starts[TOPICS.parked] = 2
    it.steps()
    assert [str(one.half) for one in it.index.parked()] == ["0:7"]
    assert it.standing.complete


def test_topics_that_are_missing_are_named_until_they_are_there(it: Set) -> None:
    it.consumer.logs.clear()
    it.reading.begin()
    it.steps()
    problem = "Kafka has no topic cb.status and cb.parked: run 'checkback topics create'."
    assert it.standing == ListStanding(problem=problem)
    it.consumer.make(TOPICS.parked)
    it.consumer.logs[TOPICS.parked] = [parked("0:5")]
    it.steps()
    assert it.standing == ListStanding(problem="Kafka has no topic cb.status: run 'checkback topics create'.")
    assert it.index.total(PARKED.name).number == 1
    it.consumer.make(TOPICS.status)
    it.steps()
    assert it.standing == ListStanding(complete=True)


def test_while_kafka_is_away_what_was_read_stays(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1")]
    it.reading.begin()
    it.steps()
    it.consumer.fails = KafkaTimeoutError("no answer")
    it.steps(3, seconds=10)
    assert it.ids() == ["tx-0:1"]
    assert it.standing.complete
    assert it.standing.away_seconds == 20.0
    assert "no answer" in it.standing.problem
    it.consumer.fails = None
    it.consumer.logs[TOPICS.status].append(row("0:2"))
    it.steps()
    assert it.standing == ListStanding(complete=True)
    assert it.ids() == ["tx-0:1", "tx-0:2"]


def test_where_topics_end_is_asked_rarely(it: Set) -> None:
    it.reading.begin()
    it.steps(200, seconds=0.5)
    assert it.consumer.looks == 10


class Followed:
    """A follower with a consumer for each connection."""

    def __init__(self, *consumers: FakeConsumer | Exception) -> None:
        self.consumers = list(consumers)
        self.index = Index()
        self.progress = ReadingProgress()
        self.connected = 0
        self.follower = Follower(TOPICS, self.index, self._connect, self.progress)

    def _connect(self) -> FakeConsumer:
        self.connected += 1
        one = self.consumers[min(self.connected, len(self.consumers)) - 1]
        if isinstance(one, Exception):
            raise one
        return one


def test_the_thread_goes_on_after_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("status_page.transactions.following._RETRY_SECONDS", (0.01,))
    odd_one, good = FakeConsumer(), FakeConsumer()
    odd_one.polls_fail = ZeroDivisionError("odd")
    good.logs[TOPICS.status] = [row("0:1")]
    it = Followed(KafkaConnectionError("no"), OSError("no"), odd_one, good)
    it.follower.start()
    it.follower.start()
    wait_until(lambda: it.index.total(STATUS.name).number == 1, 5)
    wait_until(lambda: it.progress.standing() == ListStanding(complete=True), 5)
    assert it.connected == 4
    assert odd_one.closed
    it.follower.stop()
    it.follower.stop()
    assert good.closed
    assert not [one for one in threading.enumerate() if one.name == "status-page"]
    it.follower.start()
    wait_until(lambda: it.connected == 5, 5)
    it.follower.stop()


def test_a_full_disk_is_said_and_what_was_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("status_page.transactions.following._RETRY_SECONDS", (0.01,))
    consumer = FakeConsumer()
    consumer.logs[TOPICS.status] = [row("0:1")]
    it = Followed(consumer)
    full = threading.Event()
    full.set()
    take, said = it.index.take_status, list[str]()

    def taken(rows: Any) -> None:
        said.append(it.progress.standing().problem)
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        take(rows)

    monkeypatch.setattr(it.index, "take_status", taken)
    it.follower.start()
    wait_until(lambda: "cannot be kept: database or disk is full" in it.progress.standing().problem, 5)
    full.clear()
    wait_until(lambda: it.index.in_doubt_at(HalfPosition(0, 1)) is not None, 5)
    it.follower.stop()


def test_a_row_says_what_its_json_says() -> None:
    said = {"asked_ms": 9, "last_answer": "unknown", "next_check_ms": 11}
    assert in_doubt(row("0:1", **said).value or b"", 5)[6:] == (5, 9, "unknown", 11, 0, 0, "")
    said |= {"answered_ms": 10, "misses": 2, "remark": "busy"}
    assert in_doubt(row("0:1", **said).value or b"", 5)[6:] == (5, 9, "unknown", 11, 10, 2, "busy")
