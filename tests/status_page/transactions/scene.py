"""A Kafka in memory whose two topics fill an index."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka import TopicPartition

from checkback.operations.in_doubt import MOST_REMARK_BYTES
from checkback.wire.protocol import Topics
from status_page.transactions.index import Index
from status_page.transactions.reading import IndexReader, ListStanding, ReadingProgress
from tests.job_records import status_row
from tests.needs_no_repair import NeedsNoRepair

TOPICS = Topics()


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Any = ()
    timestamp: int = 5
    offset: int = 0


class Cluster:
    def __init__(self) -> None:
        self.ids: dict[str, object] = {}

    def topic_id(self, topic: str) -> object:
        return self.ids.get(topic)


class FakeConsumer(NeedsNoRepair):
    """As much of kafka-python's consumer as is used; ``test_following`` holds it against a real one."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Record]] = {}
        self.starts: dict[str, int] = {}
        self.fails: Exception | None = None
        """What asking where topics end raises."""
        self.ends_fail: Exception | None = None
        self.looks = 0
        self.polls_fail: Exception | None = None
        self.closed = False
        self._cluster = Cluster()
        self._positions: dict[TopicPartition, int] = {}
        for topic in (TOPICS.status, TOPICS.parked):
            self.make(topic)

    def make(self, topic: str) -> None:
        self.logs[topic] = []
        self.starts[topic] = 0
        self._cluster.ids[topic] = object()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0} if topic in self.logs else None

    def assign(self, places: list[TopicPartition]) -> None:
        self._positions = dict.fromkeys(places, 0)

    def seek_to_beginning(self, *places: TopicPartition) -> None:
        self._positions.update({place: self.starts[place.topic] for place in places})

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        if self.polls_fail is not None:
            raise self.polls_fail
        found = {}
        for place, position in self._positions.items():
            if records := self.logs.get(place.topic, [])[position : position + 3]:
                found[place] = records
                self._positions[place] += len(records)
        return found

    def position(self, place: TopicPartition, timeout_ms: int) -> int:
        return self._positions[place]

    def beginning_offsets(self, places: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        if self.fails is not None:
            raise self.fails
        return {place: self.starts[place.topic] for place in places}

    def end_offsets(self, places: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        self.looks += 1
        if self.ends_fail is not None:
            raise self.ends_fail
        return {place: len(self.logs[place.topic]) for place in places}

    def close(self, *, autocommit: bool, timeout_ms: int) -> None:
        self.closed = True


def row(place: str, **changed: Any) -> Record:
    row = status_row(f"tx-{place}", place, group="g", topic="t", ingested_ms=5)
    return Record(place.encode(), json.dumps({**row, **changed}).encode())


def parked(half: str, name: str = "px", *, ended: bool = False) -> Record:
    headers = [("cb-id", name.encode()), ("cb-group", b"g"), ("cb-topic", b"t"), ("cb-half", half.encode())]
    return Record(b"k", b"v", [*headers, ("cb-ended", b"committed") if ended else ("cb-reason", b"why")])


class Set:
    """A reading with its parts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.consumer = FakeConsumer()
        self.index = Index()
        self.progress = ReadingProgress(lambda: self.now, {TOPICS.status: 7_200.0})
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
    row("0:4", transaction_id="\ud800"),
    row("0:4", transaction_id="x" * 1_000),
    row("0:4", ingested_ms=10**400),
]
