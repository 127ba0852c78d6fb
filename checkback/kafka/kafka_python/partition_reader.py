"""Reads of one partition with kafka-python, none of which goes on for ever, whatever has become of the topic."""

import math
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

from checkback.kafka.kafka_python.polling import poll

_POLL_MS = 100
_ANSWER_MS = 2_000
JUST_NOW_SECONDS = 0.05
"""Bounds are as good as that old, where many are looked for at once."""


class PartitionReader:
    """``place`` is a TopicPartition of kafka-python's; several of these may share one ``consumer``, on one thread.

    All raise KafkaError where Kafka does not answer within two seconds, or has no such partition.
    """

    def __init__(self, consumer: Any, place: Any) -> None:
        self._consumer = consumer
        self._place = place
        self._bounds = 0, 0
        self._asked = -math.inf

    def bounds(self, within_seconds: float = 0.0) -> tuple[int, int]:
        """The first offset that is there, and that after the last: now, or as it was such a time ago at most."""
        if monotonic() - self._asked > within_seconds:
            begins = self._consumer.beginning_offsets([self._place], timeout_ms=_ANSWER_MS)
            ends = self._consumer.end_offsets([self._place], timeout_ms=_ANSWER_MS)
            self._bounds, self._asked = (int(begins[self._place]), int(ends[self._place])), monotonic()
        return self._bounds

    def offset_at(self, time_ms: int, end: int) -> int:
        """Where the records from a time on begin (ms since 1970); ``end`` where there is none."""
        times = {self._place: max(0, time_ms)}
        found = self._consumer.offsets_for_times(times, timeout_ms=_ANSWER_MS)[self._place]
        return end if found is None else int(found.offset)

    def one(self, offset: int, until: float) -> Any | None:
        """The record at an offset; None: it is not there.

        Raises:
            TimeoutError: that could not be found out until then (s, monotonic).
        """
        begin, end = self.bounds(JUST_NOW_SECONDS)
        if not begin <= offset < end:
            return None
        passed = offset
        for records, at in self.read(offset, offset + 1, until):
            passed = at
            for record in records:
                if record.offset == offset:
                    return record
        if passed == offset:
            raise TimeoutError(f"{self._place}: offset {offset} was not read in time")
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
