"""A copy is found by its signature, however the stretches lie, and against a plain model."""

from collections.abc import Iterator, Sequence
from time import monotonic
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.wire.protocol import SIGNATURE, HalfPosition
from checkback.wire.signed_records import WINDOW_MS
from checkers.signature_index import SignatureIndex

NOW_MS = 1_700_000_000_000


class FakeReader:
    """Of records that are there, from ``begin`` on. ``test_copies.py`` has the index read a real Kafka."""

    def __init__(self, records: Sequence[Any], begin: int = 0, piece: int = 3) -> None:
        self.records = list(records)
        self.begin, self.piece = begin, piece
        self.pieces = 1_000_000
        """So many are given before time is over."""
        self.read_of = 0
        self.breaks_at = 1_000_000

    def bounds(self, _within_seconds: float = 0.0) -> tuple[int, int]:
        return self.begin, len(self.records)

    def offset_at(self, time_ms: int, end: int) -> int:
        return next((one.offset for one in self.records[self.begin :] if one.timestamp >= time_ms), end)

    def one(self, offset: int, _until: float) -> Any | None:
        return self.records[offset] if self.begin <= offset < len(self.records) else None

    def read(self, start: int, stop: int, _until: float) -> Iterator[tuple[Sequence[Any], int]]:
        at = max(start, self.begin)
        while at < stop and self.pieces:
            self.pieces -= 1
            if at + self.piece > self.breaks_at:
                raise ConnectionError("broken")
            piece = self.records[at : min(at + self.piece, stop)]
            self.read_of += len(piece)
            at += len(piece)
            yield piece, at


def record(offset: int, code: int | None, signed_ms: int, kafka_ms: int | None = None) -> Any:
    """``code`` makes the signature; None: it has none, or one that is none."""
    headers = [("cb-id", b"x"), ("other", None)]
    if code is not None:
        headers.append((SIGNATURE, b"shop-1 %d c%d" % (signed_ms, code)))
    elif offset % 2:
        headers.append((SIGNATURE, b"? ? ?"))
    return SimpleNamespace(offset=offset, timestamp=signed_ms if kafka_ms is None else kafka_ms, headers=headers)


class Searched(NamedTuple):
    """An index, and what it reads."""

    signatures: SignatureIndex
    reader: FakeReader


def asked(searched: Searched, offset: int) -> bool | None:
    reader: Any = searched.reader
    return searched.signatures.is_copy(reader, HalfPosition(0, offset), monotonic() + 60)


def index_of(reader: FakeReader, most: int = 100) -> Searched:
    return Searched(SignatureIndex(most), reader)


RECORDS = st.lists(
    st.tuples(st.none() | st.integers(0, 5), st.integers(0, 2 * WINDOW_MS // 30_000)), min_size=1, max_size=30
)


@given(
    written=RECORDS, asks=st.lists(st.integers(0, 35), max_size=12), begin=st.integers(0, 5), piece=st.integers(1, 9)
)
def test_the_later_of_two_with_one_signature_is_the_copy(
    written: list[tuple[int | None, int]], asks: list[int], begin: int, piece: int
) -> None:
    """Kafka's times rise; a signature is as old as Kafka takes at most, since the job refuses others."""
    records, now_ms, signed = [], NOW_MS, dict[int, int]()
    for offset, (code, step) in enumerate(written):
        now_ms += step * 1_000
        signed_ms = signed.get(code, now_ms) if code is not None else now_ms
        if code is not None and now_ms - signed_ms > WINDOW_MS:
            code = None  # noqa: PLW2901  (the job would refuse it, and nobody is asked)
        elif code is not None:
            signed[code] = signed_ms
        records.append(record(offset, code, signed_ms, now_ms))
    index = index_of(FakeReader(records, begin, piece), most=200)

    def model(offset: int) -> bool:
        if not begin <= offset < len(records):
            return False
        own = dict(records[offset].headers).get(SIGNATURE)
        return (
            own is not None
            and own[0] != ord("?")
            and any(dict(one.headers).get(SIGNATURE) == own for one in records[begin:offset])
        )

    assert [asked(index, offset) for offset in asks] == [model(offset) for offset in asks]


def test_what_was_read_is_not_read_again_and_what_came_since_is() -> None:
    reader = FakeReader([record(number, number, NOW_MS + number) for number in range(50)])
    index = index_of(reader)
    assert [asked(index, offset) for offset in (40, 10, 39)] == [False] * 3
    assert reader.read_of <= 43
    reader.records.append(record(50, 7, NOW_MS + 7, NOW_MS + 50))
    assert asked(index, 50) is True
    assert reader.read_of <= 55


def test_what_could_not_be_read_in_time_is_not_known_and_is_read_on() -> None:
    reader = FakeReader([record(number, number % 29, NOW_MS) for number in range(30)])
    index = index_of(reader)
    reader.pieces = 2
    assert asked(index, 28) is None
    reader.pieces = 100
    assert asked(index, 28) is False
    assert asked(index, 29) is True
    assert reader.read_of == 30


@pytest.mark.parametrize("ahead_ms", [0, 15_000])
@pytest.mark.parametrize("most", [40, 400])
def test_a_flood_between_the_two_hides_nothing(most: int, ahead_ms: int) -> None:
    """More than are kept: those around the time of the signature are looked at, and its clock may be ahead."""
    flood = [record(1 + number, 1_000 + number, NOW_MS + 20_000) for number in range(300)]
    signed_ms = NOW_MS + ahead_ms
    reader = FakeReader([record(0, 1, signed_ms, NOW_MS), *flood, record(301, 1, signed_ms, NOW_MS + 21_000)])
    index = index_of(reader, most)
    assert asked(index, 301) is True
    assert asked(index, 300) is False
    assert asked(index, 0) is False
    assert asked(index, 301) is True


def test_a_clock_that_is_ahead_of_a_flood_hides_nothing_where_all_is_read() -> None:
    """The stretch began a quarter of the most before the time of the signature, which is after the original."""
    flood = [record(1 + number, 1_000 + number, NOW_MS + 500) for number in range(300)]
    signed_ms = NOW_MS + 120_000
    reader = FakeReader([record(0, 1, signed_ms, NOW_MS), *flood, record(301, 1, signed_ms, NOW_MS + 1_000)])
    assert asked(index_of(reader, 400), 301) is True


def test_what_comes_after_the_window_does_not_cut_it() -> None:
    """Asked about again when much more has come, by a clock that is ahead: only the window counts."""
    between = [record(1 + number, 1_000 + number, NOW_MS + 500) for number in range(200)]
    signed_ms = NOW_MS + 120_000
    reader = FakeReader([record(0, 1, signed_ms, NOW_MS), *between, record(201, 1, signed_ms, NOW_MS + 130_000)])
    index = index_of(reader, 400)
    assert asked(index, 201) is True
    later_ms = signed_ms + 2 * WINDOW_MS
    reader.records += [record(202 + number, 5_000 + number, later_ms) for number in range(1_000)]
    assert asked(index, 1_100) is False  # another stretch
    assert asked(index, 201) is True


def test_what_was_read_before_an_error_is_known() -> None:
    reader = FakeReader([record(number, number % 20, NOW_MS) for number in range(30)])
    index = index_of(reader)
    reader.breaks_at = 24
    with pytest.raises(ConnectionError):
        asked(index, 29)
    reader.breaks_at = 1_000
    assert [asked(index, offset) for offset in (22, 19, 29)] == [True, False, True]


def test_of_a_topic_that_was_made_again_nothing_is_believed() -> None:
    reader = FakeReader([record(number, number, NOW_MS) for number in range(10)])
    index = index_of(reader)
    assert asked(index, 9) is False
    reader.records = [record(number, 7, NOW_MS) for number in range(3)]
    assert [asked(index, offset) for offset in (0, 1, 2, 3)] == [False, True, True, False]
