"""Kafka clients that do what a test tells them."""

from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import RebalanceInProgressError

from checkback.kafka.transport import Heard, OutgoingRecord
from tests.needs_no_repair import NeedsNoRepair

PLACE = TopicPartition("cb.check", 0)
REGISTRY = TopicPartition("cb.producers", 0)


class Record(NamedTuple):
    """Of a topic, as much as is looked at."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Any = ()
    timestamp: int = 0


class FakeConsumer(NeedsNoRepair):
    """Gives the records put into it, once each. ``fails`` are errors that the next calls raise, one each."""

    def __init__(self, place: TopicPartition = PLACE, most: int = 500) -> None:
        self.place = place
        self.most = most
        self.records: list[Record] = []
        self.fails: list[Exception] = []
        self.commits: list[Any] = []
        """What was committed, offset and note; the first may be a test's."""
        self.polls = 0
        self.joins_until = 0
        """Before so many polls, it joins its group: commits fail."""
        self.given = 0
        """Records, those given again counted again."""
        self.closed = False
        self._position = 0

    def assignment(self) -> set[TopicPartition]:
        return {self.place}

    def seek_to_beginning(self, *_: TopicPartition) -> None:
        self._position = 0

    def end_offsets(self, _: Any) -> dict[TopicPartition, int]:
        self._fail()
        return {self.place: len(self.records)}

    def position(self, _: TopicPartition, timeout_ms: int = 0) -> int:
        return self._position

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._position = offset

    def assign(self, places: list[TopicPartition]) -> None:
        assert places == [self.place]

    def committed(self, _: TopicPartition, *, metadata: bool, timeout_ms: int) -> Any:
        assert metadata
        self._fail()
        return self.commits[-1] if self.commits else None

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        self.polls += 1
        self._fail()
        found = self.records[self._position :][: min(self.most, max_records or self.most)]
        self.given += len(found)
        self._position += len(found)
        return {self.place: found} if found else {}

    def commit(self, offsets: Any, timeout_ms: int | None = None) -> None:
        assert timeout_ms is not None, "a commit waits for half a minute, and the service cannot be stopped"
        self._fail()
        if self.polls < self.joins_until:
            raise RebalanceInProgressError
        self.commits.append(offsets[self.place])

    def committed_offsets(self) -> list[int]:
        return [one.offset for one in self.commits]

    def close(self, **_: Any) -> None:
        self.closed = True
        self._fail()

    def _fail(self) -> None:
        if self.fails:
            raise self.fails.pop(0)


class FakeAnswers:
    """Keeps what is written. ``refuses`` are heard by the next at once, ``loses`` by the next when one listens."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.refuses: list[Exception] = []
        self.loses: list[Exception] = []
        self.fails: list[Exception] = []
        self.closed = False
        self.half_partitions = 5
        self._untold: list[tuple[Heard, Exception | None]] = []

    def partitions(self, half_topic: str, op_topic: str) -> int:
        assert half_topic == op_topic == "cb.half"
        return self.half_partitions

    def write_heard(self, record: OutgoingRecord, heard: Heard) -> None:
        if self.refuses:
            heard(self.refuses.pop(0))
        elif self.loses:
            self._untold.append((heard, self.loses.pop(0)))
        else:
            self.sent.append((record.partition, dict(record.headers)["cb-id"]))
            self._untold.append((heard, None))

    def hear(self) -> None:
        untold, self._untold = self._untold, []
        for heard, error in untold:
            heard(error)

    def flush(self, seconds: float) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.hear()

    def close(self, seconds: float) -> None:
        self.closed = True
        self.flush(seconds)
