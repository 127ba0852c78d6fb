"""Which signatures the half messages of a stretch of a partition have: read once for all that are asked about."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkback.kafka.kafka_python.partition_reader import JUST_NOW_SECONDS, PartitionReader
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import SIGNATURE
from checkback.wire.signed_records import WINDOW_MS, WrittenSignature

MOST_RECORDS = 400_000
"""Of a stretch; 24 bytes are kept of each."""
_BUCKET_MS = 10_000
"""Signatures whose times are so near to one another are looked for in one stretch."""
_MOST_TIMES = 1_000
_NONE = np.empty((0, 3), np.int64)


class _Signature(NamedTuple):
    number: int
    """63 bits of it."""
    time_ms: int


class SignatureIndex:
    """Of one stretch of a partition of ``cb.half``: signatures as 63 bits, offsets and times signed (ms), a row each.

    ``most``: records of a stretch. Raises as :class:`~checkback.kafka.kafka_python.partition_reader.PartitionReader`.
    """

    def __init__(self, reader: PartitionReader, most: int = MOST_RECORDS) -> None:
        self._reader = reader
        self._most = most
        self._offsets: OrderedDict[int, int] = OrderedDict()
        """By time (ms), where the records from then on begin."""
        self._begin_at(-1)

    def is_copy(self, offset: int, until: float) -> bool | None:
        """Whether a half message before this one has the very same signature. Of an unsigned one: no.

        Looked at is what Kafka got while it took signatures of that time; where these are more than ``most`` half
        messages, a quarter of ``most`` before that time and the rest after it. None: that was not read until then
        (s, monotonic); what was read is there the next time.
        """
        begin, end = self._reader.bounds(JUST_NOW_SECONDS)
        if self._stop > end:  # the topic was made again
            self._offsets.clear()
            self._begin_at(-1)
        own = self._own(offset, until)
        if own is None:
            return False
        first = max(begin, self._first(own.time_ms, end))
        if not 0 <= self._start <= first or min(offset, first + self._most) > self._start + self._most:
            self._begin_at(first)
        last = min(offset, first + self._most)
        if self._stop < last:
            self._read(min(end, self._start + self._most), last, until)
        if self._is_before(own.number, offset):
            return True
        return False if self._stop >= last else None

    def _begin_at(self, offset: int) -> None:
        self._start = self._stop = offset
        self._rows: NDArray[np.int64] = _NONE
        self._numbers = self._earliest = _NONE[:, 0]

    def _own(self, offset: int, until: float) -> _Signature | None:
        if self._start <= offset < self._stop:
            at = int(np.searchsorted(self._rows[:, 1], offset))
            if at == len(self._rows) or self._rows[at, 1] != offset:
                return None
            return _Signature(int(self._rows[at, 0]), int(self._rows[at, 2]))
        record = self._reader.one(offset, until)
        return None if record is None else _signature(record.headers)

    def _first(self, time_ms: int, end: int) -> int:
        """Where Kafka began to take signatures of that time, or near that time where it got too many while it did."""
        began_ms = time_ms // _BUCKET_MS * _BUCKET_MS
        window = self._offset_at(began_ms - WINDOW_MS, end)
        if end - window <= self._most:  # which saves to ask where it ended, as it may not have yet
            return window
        if self._offset_at(began_ms + _BUCKET_MS + WINDOW_MS, end) - window <= self._most:
            return window
        return max(window, self._offset_at(began_ms, end) - self._most // 4)

    def _offset_at(self, time_ms: int, end: int) -> int:
        """Asked once, as soon as there is a record of that time."""
        found = self._offsets.get(time_ms)
        if found is None:
            found = self._reader.offset_at(time_ms, end)
            if found < end:
                self._offsets[time_ms] = found
                if len(self._offsets) > _MOST_TIMES:
                    self._offsets.popitem(last=False)
        return found

    def _read(self, stop: int, enough: int, until: float) -> None:
        rows, read_to = [self._rows], self._stop
        try:
            for records, at in self._reader.read(self._stop, stop, until):
                rows.append(_rows(records))
                read_to = at
                if at >= enough:
                    break
        finally:  # what was read is known, also when the next piece fails
            self._rows, self._stop = np.concatenate(rows), read_to
            self._numbers, first = np.unique(self._rows[:, 0], return_index=True)
            self._earliest = self._rows[first, 1]

    def _is_before(self, number: int, offset: int) -> bool:
        at = int(np.searchsorted(self._numbers, number))
        return at < len(self._numbers) and bool(self._numbers[at] == number and self._earliest[at] < offset)


def _rows(records: Sequence[Any]) -> NDArray[np.int64]:
    found = [(*signed, one.offset) for one in records if (signed := _signature(one.headers)) is not None]
    return np.array(found, np.int64).reshape(-1, 3)[:, [0, 2, 1]]


def _signature(headers: Iterable[tuple[str, bytes | None]]) -> _Signature | None:
    written = own_headers(headers).get(SIGNATURE)
    signature = WrittenSignature.parse(written)
    if signature is None or written is None:
        return None
    return _Signature(int.from_bytes(blake2b(written, digest_size=8).digest()) >> 1, signature.time_ms)
