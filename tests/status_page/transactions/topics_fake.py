"""A consumer of ``cb.status`` and ``cb.parked`` that does what a test tells it."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka import TopicPartition

from checkback.wire.protocol import Topics
from tests.needs_no_repair import NeedsNoRepair

TOPICS = Topics()


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Any = ()
    timestamp: int = 5
    offset: int = 0


class _Cluster:
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
        self._cluster = _Cluster()
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
    said = {"id": f"tx-{place}", "group": "g", "topic": "t", "half": place, "attempt": 1, "check_max": 15}
    return Record(place.encode(), json.dumps({**said, "ingested_ms": 5, **changed}).encode())


def parked(half: str, name: str = "px", *, ended: bool = False) -> Record:
    headers = [("cb-id", name.encode()), ("cb-group", b"g"), ("cb-topic", b"t"), ("cb-half", half.encode())]
    return Record(b"k", b"v", [*headers, ("cb-ended", b"committed") if ended else ("cb-reason", b"why")])
