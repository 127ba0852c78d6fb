"""Which half messages lie around a moment of a partition, by id: read once for all that are asked about together."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.topic_reading import records_between
from checkback.wire.protocol import ID
from gateway.twins import NAMED

_LOGGER = logging.getLogger(__name__)
APART_MS = 60_000
"""So long before and after a half message the others of its id are looked for. Clients repeat within 10 s."""
MOST_RECORDS = 200_000
"""Of a partition, in one look; 24 bytes are kept of each."""
_EARLIER_MS = 30_000
"""So much more is read before it: the next one that is asked about may be an earlier one."""
_POLL_MS = 200
_UNNAMED = -1
_NONE = np.empty((0, 3), np.int64)


class HalfIndex:
    """Of one partition, of which it keeps one stretch: ids as 63 bits, offsets and times (ms), one row each."""

    def __init__(self, consumer: Any, place: Any) -> None:
        self._consumer = consumer
        self._place = place
        self._rows: NDArray[np.int64] = _NONE
        self._start = self._stop = 0
        """Offsets."""
        self._from_ms = 0

    def find(self, offset: int, transaction_id: str) -> dict[int, int]:
        """Offsets and times (ms) of the half messages of this id around that offset, its own among them.

        None of them, where Kafka has it no longer, or its id is another.
        """
        number = _number(transaction_id.encode())
        own = self._of(number).get(offset)
        if own is None:
            own = self._time_of(offset)
        if own is None:
            return {}
        self._cover(offset, own - APART_MS, own + APART_MS)
        return {place: time for place, time in self._of(number).items() if abs(time - own) <= APART_MS}

    def _of(self, number: int) -> dict[int, int]:
        found = self._rows[self._rows[:, 0] == number]
        return {int(offset): int(time) for _, offset, time in found}

    def _time_of(self, offset: int) -> int | None:
        record = next(records_between(self._consumer, self._place, offset, offset + 1), None)
        return None if record is None else int(record.timestamp)

    def _cover(self, offset: int, from_ms: int, to_ms: int) -> None:
        """Read what is missing of the time around this offset; what Kafka does not have yet, the next time."""
        end = self._consumer.end_offsets([self._place])[self._place]
        known = self._start <= offset <= self._stop and self._from_ms <= from_ms
        if not known or len(self._rows) > MOST_RECORDS:
            self._from_ms = from_ms - _EARLIER_MS
            self._start = self._stop = offset_at(self._consumer, self._place, self._from_ms, end)
            self._rows = _NONE
        self._read_on(end, to_ms)

    def _read_on(self, end: int, to_ms: int) -> None:
        most = self._stop + MOST_RECORDS
        stop = min(end, most)
        if stop == most < end:
            _LOGGER.warning("Of %s only %d half messages are looked at.", self._place, MOST_RECORDS)
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, self._stop)
        while self._stop < stop and not self._is_past(to_ms):
            for records in poll(self._consumer, _POLL_MS).values():
                rows = [(_number(dict(one.headers).get(ID)), one.offset, one.timestamp) for one in records]
                self._rows = np.concatenate((self._rows, np.array(rows, np.int64)))
            # an offset may be passed without a record: Kafka's own are not given
            self._stop = self._consumer.position(self._place)

    def _is_past(self, to_ms: int) -> bool:
        """Whether the last ones are all of a later time: one alone may have a time that somebody has made up."""
        last = self._rows[-10:, 2]
        return len(last) == 10 and bool((last > to_ms).all())


def offset_at(consumer: Any, place: Any, time_ms: int, end: int) -> int:
    """Where the records from a time on begin (ms since 1970); ``end`` where there is none."""
    found = consumer.offsets_for_times({place: max(0, time_ms)})[place]
    return end if found is None else int(found.offset)


def _number(transaction_id: bytes | None) -> int:
    """63 bits of an id that was made of a name, which is a hash."""
    said = transaction_id or b""
    try:
        return int(said[len(NAMED) :][:16], 16) >> 1 if said.startswith(NAMED.encode()) else _UNNAMED
    except ValueError:
        return _UNNAMED
