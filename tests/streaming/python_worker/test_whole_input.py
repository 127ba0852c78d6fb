"""What a Python worker reads is whole, or an error: on bytes, and on real Spark's workers."""

import io
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from checkback.exceptions import ConfigurationError, InputCutShortError
from streaming.python_worker import whole_input
from streaming.python_worker.whole_input import END_OF_STREAM, WatchedInput, whole
from tests.place import wait_until

ROWS = 200_000
SCHEMA = pa.schema({"number": pa.int64(), "text": pa.string()})


def stream_of(*counts: int) -> bytes:
    """An Arrow stream of batches of so many rows, with its mark."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, SCHEMA) as writer:
        for count in counts:
            writer.write_batch(pa.record_batch({"number": range(count), "text": ["x"] * count}, schema=SCHEMA))
    return out.getvalue()


@pytest.mark.parametrize("counts", [(), (3,), (3, 0, 5)])
def test_a_whole_stream_is_read_to_its_mark_and_no_further(counts: tuple[int, ...]) -> None:
    file = io.BytesIO(stream_of(*counts) + b"what follows")
    assert [batch.num_rows for batch in WatchedInput(file).batches()] == list(counts)
    assert file.read() == b"what follows"


def test_a_stream_that_ends_anywhere_else_is_an_error() -> None:
    complete = stream_of(3, 5)
    for end in range(len(complete)):
        rows = WatchedInput(io.BytesIO(complete[:end])).batches()
        with pytest.raises(InputCutShortError):
            list(rows)


def test_rows_that_end_with_the_marks_bytes_are_not_the_mark() -> None:
    schema = pa.schema({"number": pa.int64()})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(pa.record_batch({"number": [int.from_bytes(END_OF_STREAM, "little")]}, schema=schema))
    body = out.getvalue().removesuffix(END_OF_STREAM)
    # Arrow pads what it writes with zeros, so the mark's bytes are put at the very end by hand
    body = body[: body.rindex(END_OF_STREAM) + len(END_OF_STREAM)]
    watched = WatchedInput(io.BytesIO(body))
    with pytest.raises(InputCutShortError):
        list(watched.batches())


def test_a_worker_that_does_not_watch_its_input_gives_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_input._Latest, "watched", None)
    with pytest.raises(ConfigurationError, match=r"spark\.python\.daemon\.module"):
        next(whole(iter([pa.record_batch({"number": [1]})])))


def test_rows_that_end_while_the_input_goes_on_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedInput(io.BytesIO(stream_of(3, 5)))
    monkeypatch.setattr(whole_input._Latest, "watched", watched)
    with pytest.raises(InputCutShortError):
        list(whole(itertools.islice(watched.batches(), 1)))


def test_the_input_of_an_earlier_task_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedInput(io.BytesIO(stream_of(3)))
    monkeypatch.setattr(whole_input._Latest, "watched", watched)
    assert len(list(watched.batches())) == 1
    with pytest.raises(ConfigurationError):
        next(whole(iter([pa.record_batch({"number": [1]})])))


class Pipe:
    """Two Python workers of one task, one behind the other, as the state's and the sink's are.

    The first gives rows slowly enough that the fault falls among them; the second notes how its input ended.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def frame(self, fails: bool = False) -> DataFrame:  # noqa: FBT001, FBT002  (a parameter of one call)
        folder = str(self.folder)

        def first(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            (Path(folder) / "first").write_text(str(os.getpid()), encoding="utf-8")
            for number, frame in enumerate(frames):
                if fails and number == 2:
                    raise ValueError("the state function failed")
                yield frame
                time.sleep(0.2)

        def second(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = 0
            ended = "whole"
            try:
                for batch in whole(batches):
                    rows += batch.num_rows
                    (Path(folder) / "rows").write_text(str(rows), encoding="utf-8")
            except BaseException as error:
                ended = type(error).__name__
                raise
            finally:
                (Path(folder) / "ended.draft").write_text(ended, encoding="utf-8")
                (Path(folder) / "ended.draft").rename(Path(folder) / "ended")
            yield pa.record_batch({"rows": [rows]}, schema=pa.schema({"rows": pa.int64()}))

        numbers = self.spark.range(0, ROWS, 1, 1).selectExpr("id AS number")
        return numbers.mapInPandas(first, "number long").mapInArrow(second, "rows long")

    def first_worker(self) -> psutil.Process:
        """Once rows of it have reached the second."""
        wait_until((self.folder / "rows").exists)
        return psutil.Process(int((self.folder / "first").read_text(encoding="utf-8")))

    def ended(self) -> str:
        wait_until((self.folder / "ended").exists)
        return (self.folder / "ended").read_text(encoding="utf-8")


@pytest.fixture
def pipe(spark: SparkSession, tmp_path: Path) -> Pipe:
    return Pipe(spark, tmp_path)


def hold_and_kill(pipe: Pipe) -> None:
    worker = pipe.first_worker()
    worker.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # what is in the pipe has been read: the second worker waits
    worker.kill()


def cancel(pipe: Pipe) -> None:
    pipe.first_worker()
    pipe.spark.sparkContext.cancelJobGroup("cut short")


def nothing(_pipe: Pipe) -> None:
    pass


def test_a_worker_whose_input_is_whole_is_told_so(pipe: Pipe) -> None:
    assert pipe.frame().collect()[0].rows == ROWS
    assert pipe.ended() == "whole"


@pytest.mark.parametrize(("fault", "fails"), [(hold_and_kill, False), (cancel, False), (nothing, True)])
def test_a_worker_whose_input_is_cut_short_is_told_so(pipe: Pipe, fault: Callable[[Pipe], None], fails: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    pipe.spark.sparkContext.setJobGroup("cut short", "a test", interruptOnCancel=True)
    striking = threading.Thread(target=fault, args=(pipe,))
    striking.start()
    with suppress(Exception):  # the task fails, one way or another
        pipe.frame(fails).collect()
    striking.join()
    pipe.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None takes it away
    assert pipe.ended() != "whole"
