"""The rows of a task: pulled once, readable again, in bounded memory."""

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from checkback.exceptions import InputCutShortError
from streaming.kafka_sink.spill import ReplayableBatches

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
    with ReplayableBatches(iter(source), most_bytes) as pieces:
        assert not pieces.empty
        assert source.pulled == 1
        assert numbers(islice(pieces, 5)) == [0, 1, 2, 3, 4]
        assert numbers(pieces.pulled()) == [0, 1, 2, 3, 4]
        assert source.pulled == 5
        for _ in range(2):
            assert numbers(iter(pieces)) == list(range(10))
        assert source.pulled == 10
        assert pieces._spilled == {1 << 20: 0, 24: 7, 0: 10}[most_bytes]


def test_what_is_left_may_be_pulled_before_it_is_read() -> None:
    source = Source()
    with ReplayableBatches(iter(source), 24) as pieces:
        assert numbers(islice(pieces, 5)) == [0, 1, 2, 3, 4]
        pieces.pull()
        assert source.pulled == 10
        assert numbers(iter(pieces)) == list(range(10))


def test_the_file_goes_with_the_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ReplayableBatches(iter(Source()), 0) as pieces:
        assert numbers(iter(pieces)) == list(range(10))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_nothing_to_say() -> None:
    with ReplayableBatches(iter([pa.RecordBatch.from_pylist([], schema=SCHEMA)]), 0) as pieces:
        assert pieces.empty


def test_a_source_that_raised_is_not_taken_for_one_that_ended() -> None:
    def torn() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"number": 0}], schema=SCHEMA)
        raise OSError("the pipe broke")

    with ReplayableBatches(torn(), 1 << 20) as pieces:
        with pytest.raises(OSError, match="pipe"):
            numbers(iter(pieces))
        assert numbers(iter(pieces)) == [0]  # a generator that has raised looks exhausted
        assert not pieces.whole


def test_a_piece_that_could_not_be_kept_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_pieces: ReplayableBatches, _piece: pa.RecordBatch) -> None:
        raise OSError("no space left on device")

    with ReplayableBatches(iter(Source()), 1 << 20) as pieces:
        assert numbers(islice(pieces, 2)) == [0, 1]
        with monkeypatch.context() as patched:
            patched.setattr(ReplayableBatches, "_store", full)
            with pytest.raises(OSError, match="no space"):
                numbers(iter(pieces))
        pieces.pull()
        with pytest.raises(InputCutShortError):
            pieces.refuse_missing()


@pytest.mark.parametrize("most_bytes", [1 << 20, 0])
def test_whole_is_what_has_been_pulled_to_its_end(most_bytes: int) -> None:
    with ReplayableBatches(iter(Source()), most_bytes) as pieces:
        assert not pieces.empty
        assert not pieces.whole
        assert len(numbers(iter(pieces))) == 10
        assert pieces.whole


def test_a_file_that_was_cut_short_is_an_error_and_not_its_end() -> None:
    with ReplayableBatches(iter(Source()), 0) as pieces:
        assert len(numbers(iter(pieces))) == 10
        file = Path(pieces._file.name)
        complete = file.read_bytes()
        for length in range(0, len(complete), 4):
            file.write_bytes(complete[:length])
            with pytest.raises((RuntimeError, OSError, pa.ArrowInvalid)):
                numbers(iter(pieces))
