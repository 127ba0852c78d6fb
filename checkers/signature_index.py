"""Which signatures the half messages of ``cb.half`` have: each is read once for all groups that need it."""

from bisect import bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkback.kafka.kafka_python.reading import JUST_NOW_SECONDS, PartitionReader
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import SIGNATURE, HalfPosition
from checkback.wire.signed_records import WINDOW_MS, WrittenSignature

MOST_RECORDS = 400_000
"""That are searched for an earlier copy of one half message."""
MOST_KEPT = 8 * MOST_RECORDS
"""Half messages in all; 24 bytes are kept of each."""
_PIECE = 16_000
_PIECE_COST = 50  # half messages: what a piece costs in memory apart from them
_BUCKET_MS = 10_000
"""Signatures whose times are so near to one another are looked for from the same offset on."""
_MOST_TIMES = 1_000


class _Signature(NamedTuple):
    number: int
    """63 bits of it."""
    time_ms: int


@dataclass(slots=True, eq=False)
class _Piece:
    """The signed half messages of offsets that follow one another."""

    start: int
    stop: int
    rows: NDArray[np.int64]
    """Numbers of their signatures, offsets, and times signed (ms), in the order of numbers and then of offsets."""
    used: int = 0

    def has(self, number: int, before: int) -> bool:
        """Whether a half message before an offset has this signature."""
        numbers, offsets, _ = self.rows
        at = int(np.searchsorted(numbers, number))
        return at < len(numbers) and bool(numbers[at] == number and offsets[at] < before)


class SignatureIndex:
    """Signatures of half messages by partition, in pieces that were read one after another.

    ``most``: records that are searched for one half message. All methods run on one thread, and raise as
    :class:`~checkback.kafka.kafka_python.reading.PartitionReader`.
    """

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._most = most
        self._times: OrderedDict[tuple[int, int], int] = OrderedDict()
        """By partition and time (ms), the offset from which on records are of that time, or later."""
        self._pieces: defaultdict[int, list[_Piece]] = defaultdict(list)
        """By partition, in the order of offsets; none has an offset of another one."""
        self._searches = 0

    def is_copy(self, reader: PartitionReader, half: HalfPosition, until: float) -> bool | None:
        """Whether a half message before this one has the very same signature. Of an unsigned one: no.

        Searched is what Kafka got while it took signatures of that time; if these are more than ``most`` half
        messages, a quarter of ``most`` before that time and the rest after it. None: that was not read until then
        (s, monotonic); what was read is there the next time. ``reader`` reads the partition of ``half``.
        """
        self._searches += 1
        begin, end = reader.bounds(JUST_NOW_SECONDS)
        pieces = self._pieces[half.partition]
        if pieces and pieces[-1].stop > end:  # the topic was made again
            pieces.clear()
            self._times.clear()
        try:
            own = _own(reader, pieces, half.offset, until)
        except TimeoutError:
            return None
        if own is None:
            return False
        at = max(begin, self._first(reader, half.partition, own.time_ms, end))
        last = min(half.offset, at + self._most)
        while at < last:
            piece = _piece_at(pieces, at)
            if piece is None:
                if not self._read(reader, pieces, at, last, end, until):
                    return None
                continue
            piece.used = self._searches
            if piece.has(own.number, half.offset):
                return True
            at = piece.stop
        return False

    def _first(self, reader: PartitionReader, partition: int, time_ms: int, end: int) -> int:
        """Where Kafka began to take signatures of that time, or near that time where it got too many while it did."""
        began_ms = time_ms // _BUCKET_MS * _BUCKET_MS
        window = self._offset_at(reader, partition, began_ms - WINDOW_MS, end)
        if end - window <= self._most:  # which saves to ask where it ended, as it may not have yet
            return window
        if self._offset_at(reader, partition, began_ms + _BUCKET_MS + WINDOW_MS, end) - window <= self._most:
            return window
        return max(window, self._offset_at(reader, partition, began_ms, end) - self._most // 4)

    def _offset_at(self, reader: PartitionReader, partition: int, time_ms: int, end: int) -> int:
        """Asked once, as soon as there is a record of that time."""
        offset = self._times.get((partition, time_ms))
        if offset is None:
            offset = reader.offset_at(time_ms, end)
            if offset < end:
                self._times[partition, time_ms] = offset
                if len(self._times) > _MOST_TIMES:
                    self._times.popitem(last=False)
        return offset

    def _read(
        self, reader: PartitionReader, pieces: list[_Piece], start: int, enough: int, end: int, until: float
    ) -> bool:
        """Read from an offset up to what is known; whether anything was read in time."""
        self._forget_oldest()
        place = bisect_right(pieces, start, key=attrgetter("start"))
        at = start
        for records, reached in reader.read(start, pieces[place].start if place < len(pieces) else end, until):
            before = pieces[place - 1] if place else None
            if before is not None and before.stop == at and reached - before.start <= _PIECE:
                before.rows, before.stop = _sorted(np.concatenate((before.rows, _rows(records)), axis=1)), reached
            elif reached > at:
                pieces.insert(place, _Piece(at, reached, _sorted(_rows(records)), self._searches))
                place += 1
            at = reached
            if at >= enough:
                break
        return at > start

    def _forget_oldest(self) -> None:
        """Forget the half of the pieces that was not used for the longest time, if there are too many."""
        known = [(piece.used, partition, piece) for partition, pieces in self._pieces.items() for piece in pieces]
        if sum(piece.stop - piece.start + _PIECE_COST for *_, piece in known) <= MOST_KEPT:
            return
        for _, partition, piece in sorted(known, key=itemgetter(0))[: len(known) // 2]:
            self._pieces[partition].remove(piece)


def _own(reader: PartitionReader, pieces: Sequence[_Piece], offset: int, until: float) -> _Signature | None:
    piece = _piece_at(pieces, offset)
    if piece is None:
        record = reader.one(offset, until)
        return None if record is None else _signature(record.headers)
    numbers, offsets, times = piece.rows
    (at,) = np.nonzero(offsets == offset)
    return _Signature(int(numbers[at[0]]), int(times[at[0]])) if len(at) else None


def _piece_at(pieces: Sequence[_Piece], offset: int) -> _Piece | None:
    place = bisect_right(pieces, offset, key=attrgetter("start"))
    return pieces[place - 1] if place and offset < pieces[place - 1].stop else None


def _sorted(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(rows[:, np.lexsort((rows[1], rows[0]))])


def _rows(records: Sequence[Any]) -> NDArray[np.int64]:
    signed = [(each, record.offset) for record in records if (each := _signature(record.headers)) is not None]
    return np.array([(each.number, offset, each.time_ms) for each, offset in signed], np.int64).reshape(-1, 3).T


def _signature(headers: Iterable[tuple[str, bytes | None]]) -> _Signature | None:
    written = own_headers(headers).get(SIGNATURE)
    signature = WrittenSignature.parse(written)
    if signature is None or written is None:
        return None
    return _Signature(int.from_bytes(blake2b(written, digest_size=8).digest()) >> 1, signature.time_ms)
