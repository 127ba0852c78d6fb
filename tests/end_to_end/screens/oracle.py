"""What is true of a job, read by code of its own: plain Kafka consumers, and Spark's files in the checkpoint folder.

Everything that is kept here only grows, so each quantity at a moment lies between what was read before it and after it.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from kafka import KafkaConsumer, TopicPartition

from tests.place import Place

_READ_SECONDS = 60.0
_TERMINAL = (b"commit", b"rollback")
Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""


class Half(NamedTuple):
    """A half message."""

    transaction_id: str
    group: str
    topic: str
    copy: bool
    """The job wrote it: a committed message that its topic does not take."""


class Op(NamedTuple):
    """A decision."""

    offset: int
    action: str


class Beat(NamedTuple):
    """A heartbeat: what it says is there, and when Kafka got it."""

    group: str
    url: str
    time_ms: int


@dataclass(frozen=True)
class Moment:
    """What there was, at some time between ``began`` and ``ended``, in seconds since 1970."""

    began: float
    ended: float
    ends: Offsets
    """Of half and op topic, as Kafka's tools show them."""
    held_back: bool
    """Somebody's open transaction hides the end of one from who reads committed: a killed job's own may."""
    done: Offsets
    """What batches that have ended have read."""
    begun: Offsets
    """What batches that were begun read."""
    batch: int
    """The newest that has ended."""
    delivered: int
    status_rows: int
    beats: int


@dataclass
class Records:
    """All that was seen so far; grows."""

    halves: dict[tuple[int, int], Half] = field(default_factory=dict)
    ops: dict[tuple[int, int], Op] = field(default_factory=dict)
    """The first decision of each half message."""
    delivered: list[str] = field(default_factory=list)
    status: list[tuple[str, dict[str, Any] | None]] = field(default_factory=list)
    in_doubt: list[int] = field(default_factory=lambda: [0])
    """How many were, before the first of the rows in ``status``, after it, after the second..."""
    doubted: set[str] = field(default_factory=set)
    beats: list[Beat] = field(default_factory=list)


class Oracle:
    """Reads; use it as a context manager."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._topics = place.topics
        self._checkpoint = place.folder / "checkpoint"
        self.records = Records()
        self.moments: list[Moment] = []

    def __enter__(self) -> Self:
        names = (
            self._topics.half,
            self._topics.op,
            self._topics.status,
            self._topics.producers,
            self._place.real_topic,
        )
        self._consumer = KafkaConsumer(
            bootstrap_servers=self._place.bootstrap_servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        places = [
            TopicPartition(name, number) for name in names for number in self._consumer.partitions_for_topic(name)
        ]
        self._consumer.assign(places)
        self._read = [place for place in places if place.topic in {self._topics.half, self._topics.op}]
        self._plain = KafkaConsumer(bootstrap_servers=self._place.bootstrap_servers, enable_auto_commit=False)
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._plain.close()

    def look(self) -> Moment:
        """Read everything that is there, and keep when that was."""
        began = time.time()
        batch, done, begun = progress(self._checkpoint, self._topics.half)
        stable = self._take_all()
        plain = self._plain.end_offsets(self._read)
        ends = {(place.topic, place.partition): end for place, end in plain.items()}
        held_back = any(stable[place] < end for place, end in plain.items())
        kept = self.records
        numbers = len(kept.delivered), len(kept.status), len(kept.beats)
        self.moments.append(Moment(began, time.time(), ends, held_back, done, begun, batch, *numbers))
        return self.moments[-1]

    def _take_all(self) -> Mapping[TopicPartition, int]:
        """Where everything ended for who reads committed."""
        ends: Mapping[TopicPartition, int] = self._consumer.end_offsets(list(self._consumer.assignment()))
        until = time.monotonic() + _READ_SECONDS
        while any(self._consumer.position(place) < end for place, end in ends.items()):
            assert time.monotonic() < until, "the oracle does not get to the ends of the topics"
            for found in self._consumer.poll(200, max_records=10_000).values():
                for record in found:
                    self._take(record)
        return ends

    def _take(self, record: Any) -> None:
        kept, headers, at = self.records, dict(record.headers), (record.partition, record.offset)
        if record.topic == self._topics.half:
            name, group, topic = (headers[name].decode() for name in ("cb-id", "cb-group", "cb-topic"))
            kept.halves[at] = Half(name, group, topic, "cb-held" in headers)
        elif record.topic == self._topics.op:
            if headers["cb-action"] in _TERMINAL:
                partition, offset = headers["cb-half"].decode().split(":")
                kept.ops.setdefault((int(partition), int(offset)), Op(record.offset, headers["cb-action"].decode()))
        elif record.topic == self._topics.status:
            place, row = record.key.decode(), json.loads(record.value) if record.value else None
            kept.status.append((place, row))
            (kept.doubted.discard if row is None else kept.doubted.add)(place)
            kept.in_doubt.append(len(kept.doubted))
        elif record.topic == self._topics.producers:
            if record.value is not None:
                said = json.loads(record.value)
                kept.beats.append(Beat(said["group"], said["url"], record.timestamp))
        else:
            kept.delivered.append(headers["cb-id"].decode())


def progress(checkpoint: Path, topic: str) -> tuple[int, Offsets, Offsets]:
    """The newest batch that has ended, what such batches have read, and what those that were begun read."""
    ended = max(_numbers(checkpoint / "commits"), default=-1)
    begun = sorted(_numbers(checkpoint / "offsets"), reverse=True)
    newest = next((found for number in begun if (found := _offsets(checkpoint / f"offsets/{number}", topic))), {})
    return ended, _offsets(checkpoint / f"offsets/{ended}", topic) if ended >= 0 else {}, newest


def _numbers(folder: Path) -> Iterable[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.exists() else []


def _offsets(path: Path, topic: str) -> dict[tuple[str, int], int]:
    """Of an entry in Spark's offset log; nothing of one that is being written."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if topic in line:
            said = json.loads(line)
            return {(name, int(number)): end for name, ends in said.items() for number, end in ends.items()}
    return {}


def total_between(ends: Offsets, begins: Offsets) -> int:
    """Records from one to the other."""
    return sum(max(0, end - begins.get(place, 0)) for place, end in ends.items())
