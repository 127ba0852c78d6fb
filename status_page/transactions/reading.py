"""Reads ``cb.status`` and ``cb.parked`` into the index, and keeps account of how far the lists can be relied on."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import KafkaError, TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.kafka_python.repairs import topic_id
from checkback.kafka.topic_reading import ends_of, partitions_of
from checkback.operations.in_doubt import InDoubt, is_there, place_of, row_of
from checkback.operations.parked import ParkedEnd, parked_record
from checkback.wire.protocol import HalfPosition, Topics
from status_page.transactions.index import Index
from status_page.words import duration

_LOOK_SECONDS = 10.0
"""From one look at where the topics end to the next."""
_LOOK_SOON_SECONDS = 1.0
"""Likewise until the end was reached, or while Kafka is away."""
_ANSWER_MS = 3_000
"""A Kafka that takes longer to say where its topics end is away."""


class ListStanding(NamedTuple):
    """How far the lists can be relied on, at a moment."""

    complete: bool = False
    """Whether both topics were read to their end, since the start or since one of them was begun again."""
    behind: int = 0
    """Records that were not read yet when it was last looked."""
    away_seconds: float | None = None
    """For how long Kafka has not answered; None: it answers."""
    problem: str = ""
    """What is wrong, and what to do; empty: nothing."""
    foreign: int = 0
    """Rows that the job cannot have written, and that are in no list."""

    @property
    def lacking(self) -> str:
        """Why the lists are not complete; empty: they are."""
        return "" if self.complete else self.problem or "The list is still being read."


_NONE: Mapping[str, Any] = {}


class ReadingProgress:
    """What the thread that reads has said last. ``clock`` gives seconds and never runs backwards.

    ``rewritten``: within how many seconds the job writes all that it has of a topic again, for one that was made again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, rewritten: Mapping[str, float] = _NONE) -> None:
        self.clock = clock
        self._rewritten = rewritten
        self._identities: dict[str, object] = {}
        self._whole_at: dict[str, float] = {}
        self._read = ListStanding(problem="Nobody reads the topics yet.")
        self._away: tuple[float, str] | None = None

    def standing(self) -> ListStanding:
        """How it stands now."""
        read, away = self._read, self._away
        topic, whole_at = max(self._whole_at.items(), key=lambda one: one[1], default=("", 0.0))
        left = whole_at - self.clock()
        if topic and left > 0 and not read.problem:
            gone = f"{topic} was deleted and made again: what the job wrote there before may be missing"
            read = read._replace(complete=False, problem=f"{gone} for up to {duration(left)}.")
        if away is None:
            return read
        since, problem = away
        return read._replace(away_seconds=max(0.0, self.clock() - since), problem=problem)

    def begun(self, identities: Mapping[str, object] = _NONE, missing: str = "") -> None:
        """The topics are read from their beginning; ``missing`` says which of them are not there.

        ``identities``: what tells each from one of the same name that was made again; None: it is not there.
        """
        for topic, identity in identities.items():
            if identity is not None:
                if self._identities.setdefault(topic, identity) != identity:
                    self._whole_at[topic] = self.clock() + self._rewritten.get(topic, 0.0)
                self._identities[topic] = identity
        self._away = None
        self._read = ListStanding(problem=missing)

    def foreign(self, rows: int) -> None:
        """So many rows more cannot be the job's."""
        self._read = self._read._replace(foreign=self._read.foreign + rows)

    def looked(self, behind: int) -> bool:
        """Kafka has said where the topics end: so many records behind what was read. Whether all was read once."""
        self._away = None
        here = not self._read.problem
        self._read = self._read._replace(complete=here and (self._read.complete or behind == 0), behind=behind)
        return self._read.complete

    def away(self, problem: str) -> None:
        """Kafka does not answer, or what it says cannot be kept."""
        since = self.clock() if self._away is None else self._away[0]
        self._away = since, problem


class IndexReader:
    """``consumer`` has no group, and is this object's alone.

    A topic that was deleted and made again, was given partitions, or has lost records (retention, an unclean election)
    is read again from its beginning, and so is the other one.
    """

    def __init__(self, topics: Topics, index: Index, consumer: Any, progress: ReadingProgress) -> None:
        self._topics = topics
        self._index = index
        self._consumer = consumer
        self._progress = progress
        self._places: list[TopicPartition] = []
        self._identity: dict[str, tuple[object, frozenset[int]] | None] = {}
        self._starts: Mapping[TopicPartition, int] = {}
        self._look_at = 0.0
        self._half_ends: dict[int, int] = {}

    def begin(self) -> None:
        """Forget what was read, and read from the beginning.

        Raises:
            KafkaError: Kafka does not answer.
            NotAllowedError: it does not let this user see one of the topics.
        """
        self._identity = self._identities()
        missing = [topic for topic, what in self._identity.items() if what is None]
        self._places = [
            TopicPartition(topic, number) for topic in self._identity for number in partitions_of(self._consumer, topic)
        ]
        self._consumer.assign(self._places)
        if self._places:
            self._consumer.seek_to_beginning(*self._places)
        self._index.clear()
        self._starts = {}
        self._look_at = self._progress.clock() + _LOOK_SOON_SECONDS / 2
        problem = f"Kafka has no topic {' and '.join(missing)}: run 'checkback topics create'." if missing else ""
        self._progress.begun({topic: what and what[0] for topic, what in self._identity.items()}, problem)

    def step(self, wait_ms: int) -> int:
        """Take in what has come, waiting for it at most so long; the number of records.

        Raises:
            KafkaError: Kafka refuses; what is merely away is ridden out.
            sqlite3.Error: it cannot be kept.
        """
        found = poll(self._consumer, wait_ms) if self._places else {}
        for place, records in found.items():
            if place.topic == self._topics.status:
                self._index.take_status(self._status_rows(records))
            else:
                self._index.take_parked(_parked_rows(records))
        if self._progress.clock() >= self._look_at:
            self._look()
        return sum(map(len, found.values()))

    def _status_rows(self, records: Iterable[Any]) -> list[tuple[HalfPosition, InDoubt | None]]:
        """Anybody may have written to the topic: what cannot be the job's is counted, and is no row."""
        found = [
            (place, row_of(place, record.value, record.timestamp), record.value is not None)
            for record in records
            if (place := place_of(record.key)) is not None
        ]
        ends = self._ends_for([place for place, row, _ in found if row])
        rows = [(place, row if is_there(place, ends) else None) for place, row, _ in found]
        self._progress.foreign(sum(said and row is None for (_, row), (*_, said) in zip(rows, found, strict=True)))
        return rows

    def _ends_for(self, places: list[HalfPosition]) -> dict[int, int]:
        """Where the half topic ends, asked for again when one of these lies behind what is known."""
        if places and not (self._half_ends and all(is_there(place, self._half_ends) for place in places)):
            self._half_ends = {}
            with suppress(KafkaError):  # then it is not known: better a row too many than one too few
                self._half_ends = ends_of(self._consumer, self._topics.half, _ANSWER_MS)
        return self._half_ends

    def _look(self) -> None:
        try:
            moved = self._identities() != self._identity
            behind = None if moved else self._behind()
        except KafkaError as error:
            self._progress.away(f"Kafka does not answer: {error!r}")
            self._look_at = self._progress.clock() + _LOOK_SOON_SECONDS
            return
        if behind is None:
            self.begin()
            return
        complete = self._progress.looked(behind)
        self._look_at = self._progress.clock() + (_LOOK_SECONDS if complete else _LOOK_SOON_SECONDS)

    def _behind(self) -> int | None:
        """Records that are still to be read; None where some are gone that had been there."""
        if not self._places:
            return 0
        starts = self._consumer.beginning_offsets(self._places, timeout_ms=_ANSWER_MS)
        ends = self._consumer.end_offsets(self._places, timeout_ms=_ANSWER_MS)
        known = self._starts or starts
        positions = {place: self._consumer.position(place, timeout_ms=_ANSWER_MS) or 0 for place in self._places}
        if any(starts[place] > known[place] or ends[place] < positions[place] for place in self._places):
            return None
        self._starts = starts
        behind: int = sum(ends[place] - max(positions[place], starts[place]) for place in self._places)
        return behind

    def _identities(self) -> dict[str, tuple[object, frozenset[int]] | None]:
        """What changes when a topic is made again, or grown; None for one that is not there."""
        return {topic: self._identity_of(topic) for topic in (self._topics.status, self._topics.parked)}

    def _identity_of(self, topic: str) -> tuple[object, frozenset[int]] | None:
        partitions = partitions_of(self._consumer, topic)
        if not partitions:
            return None
        return topic_id(self._consumer, topic), frozenset(partitions)


def _parked_rows(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        try:
            said = parked_record(record)
        except (KeyError, AttributeError, UnicodeDecodeError, ProtocolError):
            continue  # the job did not write it: anybody may have
        yield said.half, said.transaction_id, None if isinstance(said, ParkedEnd) else said
