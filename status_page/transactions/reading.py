"""One connection that reads ``cb.status`` and ``cb.parked`` into the index, from their beginning and as they come."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import KafkaError, TopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.kafka_python.repairs import topic_id
from checkback.kafka.topic_reading import ends_of, partitions_of
from checkback.operations.in_doubt import InDoubt, is_there, place_of, row_of
from checkback.operations.parked import ParkedEnd, parked_record
from checkback.wire.protocol import HalfPosition, Topics
from status_page.transactions.index import Index
from status_page.transactions.standing import ReadingProgress

_LOOK_SECONDS = 10.0
"""From one look at where the topics end to the next."""
_LOOK_SOON_SECONDS = 1.0
"""Likewise until the end was reached, or while Kafka is away."""
_ANSWER_MS = 3_000
"""A Kafka that takes longer to say where its topics end is away."""


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
        self._progress.begun({topic: what and what[0] for topic, what in self._identity.items()}, _missing(missing))

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


def _missing(topics: list[str]) -> str:
    return f"Kafka has no topic {' and '.join(topics)}: run 'checkback topics create'." if topics else ""
