"""Reads of one partition with kafka-python, none of which goes on for ever, whatever has become of the topic."""

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

from checkback.kafka.kafka_python.polling import poll

_POLL_MS = 100
_ANSWER_MS = 2_000


class PartitionReader:
    """``place`` is a TopicPartition of kafka-python's; several of these may share one ``consumer``, on one thread.

    All raise KafkaError where Kafka does not answer within two seconds, or has no such partition.
    """

    def __init__(self, consumer: Any, place: Any) -> None:
        self._consumer = consumer
        self._place = place

    def bounds(self) -> tuple[int, int]:
        """The first offset that is there, and that after the last."""
        begins = self._consumer.beginning_offsets([self._place], timeout_ms=_ANSWER_MS)
        ends = self._consumer.end_offsets([self._place], timeout_ms=_ANSWER_MS)
        return int(begins[self._place]), int(ends[self._place])

    def offset_at(self, time_ms: int, end: int) -> int:
        """Where the records from a time on begin (ms since 1970); ``end`` where there is none."""
        times = {self._place: max(0, time_ms)}
        found = self._consumer.offsets_for_times(times, timeout_ms=_ANSWER_MS)[self._place]
        return end if found is None else int(found.offset)

    def one(self, offset: int, until: float) -> Any | None:
        """The record at an offset; None: it is not there, or could not be had until then (s, monotonic)."""
        begin, end = self.bounds()
        if not begin <= offset < end:
            return None
        for records, _ in self.read(offset, offset + 1, until):
            for record in records:
                if record.offset == offset:
                    return record
        return None

    def read(self, start: int, stop: int, until: float) -> Iterator[tuple[Sequence[Any], int]]:
        """Records from one offset to before another, piece by piece, each with the offset that comes after it.

        It ends early when time is over (s, monotonic).
        """
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, start)
        at = start
        while at < stop and monotonic() < until:
            records = poll(self._consumer, _POLL_MS).get(self._place, [])
            # an offset may be passed without a record: Kafka's own are not given
            at = self._consumer.position(self._place)
            yield [record for record in records if record.offset < stop], min(at, stop)
