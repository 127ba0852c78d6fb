"""Which half messages lie around a moment of a partition, by id: read once for all that are asked about together."""

import logging
import re
from collections.abc import Mapping
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from checkback.kafka.kafka_python.reading import JUST_NOW_SECONDS, PartitionReader
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import ACTION, GROUP, ID
from gateway.checking import NAMED

_LOGGER = logging.getLogger(__name__)
APART_MS = 60_000
"""So long before and after a half message the others of its id are looked for. Clients repeat within 10 s."""
_EARLIER_MS = 30_000
"""So much more is read before it: the next one that is asked about may be an earlier one."""
MOST_RECORDS = 400_000
"""Of a stretch, at most half of it before a half message; 24 bytes are kept of each."""
_LAWFUL = re.compile(re.escape(NAMED.encode()) + rb"[0-9a-f]{32}")
_UNNAMED = -1
_FOR_EVER_MS = 1 << 62
_NONE = np.empty((0, 3), np.int64)


class HalfIndex:
    """Of one stretch of a partition: ids as 63 bits, offsets and times (ms), a row each; it grows as it is asked."""

    def __init__(self, reader: PartitionReader, most: int = MOST_RECORDS) -> None:
        self._reader = reader
        self._most = most
        self._rows: NDArray[np.int64] = _NONE
        self._start = self._stop = -1
        """Offsets."""
        self._from_ms = 0

    def serves(self, offset: int) -> bool:
        """Whether the half message there lies in this stretch, or in what it may still come to."""
        return 0 <= self._start <= offset <= self._start + self._most // 2

    def find(self, offset: int, number: int, until: float) -> dict[int, int] | None:
        """Offsets and times (ms) of the half messages with this :func:`number_of` around an offset, its own among them.

        None of them where Kafka has another one there, or none. None at all: not all was read until then (s,
        monotonic); what was read is there the next time.
        """
        begin, end = self._reader.bounds(JUST_NOW_SECONDS)
        if self._stop > end:  # the topic was made again
            self._start, self._rows = -1, _NONE
        if self.serves(offset) and self._stop <= offset < end:
            self._read(offset + 1, until)
        own = self._of(number).get(offset)
        if own is None:
            record = self._reader.one(offset, until)
            if record is None or number_of(own_headers(record.headers)) != number:
                return {}
            own = int(record.timestamp)
            if offset < self._stop:  # another one was read there: the topic was made again
                self._start, self._rows = -1, _NONE
        if not self.serves(offset) or self._from_ms > own - APART_MS:
            self._from_ms = own - APART_MS - _EARLIER_MS
            first = min(offset, self._reader.offset_at(self._from_ms, end))
            self._start = self._stop = max(begin, first, offset - self._most // 2)
            self._rows = _NONE
        if not self._read_on(end, own + APART_MS, until):
            return None
        return {place: time for place, time in self._of(number).items() if abs(time - own) <= APART_MS}

    def _of(self, number: int) -> dict[int, int]:
        found = self._rows[self._rows[:, 0] == number]
        return {int(offset): int(time) for _, offset, time in found}

    def _read_on(self, end: int, to_ms: int, until: float) -> bool:
        """Whether all is read up to a time, or as much as is kept."""
        stop = min(end, self._start + self._most)
        if self._stop < stop and not self._is_past(to_ms):
            self._read(stop, until, to_ms)
        if self._stop == stop < end and not self._is_past(to_ms):
            _LOGGER.warning("Only %d half messages are looked through for one that was sent twice.", self._most)
        return self._stop >= stop or self._is_past(to_ms)

    def _read(self, stop: int, until: float, to_ms: int = _FOR_EVER_MS) -> None:
        for records, at in self._reader.read(self._stop, stop, until):
            rows = [(number_of(own_headers(one.headers)), one.offset, one.timestamp) for one in records]
            self._rows = np.concatenate((self._rows, np.array(rows, np.int64).reshape(-1, 3)))
            self._stop = at
            if self._is_past(to_ms):
                return

    def _is_past(self, to_ms: int) -> bool:
        """Whether the last ones are all of a later time: one alone may have a time that somebody has made up."""
        last = self._rows[-10:, 2]
        return len(last) == 10 and bool((last > to_ms).all())


def number_of(headers: Mapping[str, bytes]) -> int:
    """63 bits of id and group, of a half message that is to be decided and whose id was made of a name."""
    said = headers.get(ID, b"")
    if ACTION in headers or not _LAWFUL.fullmatch(said):
        return _UNNAMED
    return (int(said[len(NAMED) :][:16], 16) ^ (crc32(headers.get(GROUP, b"")) << 16)) >> 1


def is_lawful(transaction_id: str) -> bool:
    """Whether an id is one that gateways make of a name."""
    return _LAWFUL.fullmatch(transaction_id.encode()) is not None
