"""The rows of a task: pulled once, readable again, in bounded memory."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.pieces import Pieces

SCHEMA = pa.schema({"number": pa.int64()})


class Source:
    """Ten pieces of a row, an empty one after each; counts what is pulled."""

    def __init__(self) -> None:
        self.pulled = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(10):
            self.pulled += 1
            yield pa.RecordBatch.from_pylist([{"number": number}], schema=SCHEMA)
            yield pa.RecordBatch.from_pylist([], schema=SCHEMA)


def numbers(pieces: Iterator[pa.RecordBatch]) -> list[int]:
    return [piece.column("number")[0].as_py() for piece in pieces]


@pytest.mark.parametrize("most_bytes", [1 << 20, 24, 0], ids=["in memory", "three in memory", "all in the file"])
def test_pieces_are_pulled_once_and_read_often(most_bytes: int) -> None:
    source = Source()
    with Pieces(iter(source), most_bytes) as pieces:
        assert not pieces.empty
        assert source.pulled == 1
        assert numbers(islice(pieces, 5)) == [0, 1, 2, 3, 4]
        assert numbers(pieces.pulled()) == [0, 1, 2, 3, 4]
        assert source.pulled == 5
        for _ in range(2):
            assert numbers(iter(pieces)) == list(range(10))
        assert source.pulled == 10
        assert pieces.spilled == {1 << 20: 0, 24: 7, 0: 10}[most_bytes]


def test_what_is_left_may_be_pulled_before_it_is_read() -> None:
    source = Source()
    with Pieces(iter(source), 24) as pieces:
        assert numbers(islice(pieces, 5)) == [0, 1, 2, 3, 4]
        pieces.pull()
        assert source.pulled == 10
        assert numbers(iter(pieces)) == list(range(10))


def test_the_file_goes_with_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Pieces(iter(Source()), 0) as pieces:
        assert numbers(iter(pieces)) == list(range(10))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_nothing_to_say() -> None:
    with Pieces(iter([pa.RecordBatch.from_pylist([], schema=SCHEMA)]), 0) as pieces:
        assert pieces.empty


def test_what_is_drained_is_not_kept() -> None:
    source = Source()
    with Pieces(iter(source), 0) as pieces:
        assert not pieces.empty
        pieces.drain()
        assert (source.pulled, numbers(iter(pieces))) == (10, [0])
