"""The input of a Python worker, and the proof that it is whole.

Spark pipes rows to a Python worker as one Arrow stream. When what feeds the pipe fails (another worker was killed, a
function raised, a fetch failed, the task was cancelled), Spark shuts the pipe down, and pyarrow takes the end of a file
between two messages for the end of the stream: no error, rows missing. A sink that commits what it has then commits a
part of the batch as if it were the whole.

What tells a whole stream from one cut short is Arrow's end-of-stream mark. Spark 4.2 writes it in one place only,
``PythonArrowInput.close``, which is called when the iterator of rows has said that it has no more; an iterator that
raises, or that nobody asks again, never gets there. The state's operator commits its store before it says so.
"""

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from checkback.exceptions import ConfigurationError, InputCutShortError

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Arrow's mark (format 0.15 and later): a continuation, and a message of length 0."""


class WatchedInput:
    """A readable file for pyarrow that remembers the last bytes it has given."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = b""
        self._came_to_end = False

    def read(self, size: int = -1) -> bytes:
        """As a file's own; less than ``size`` bytes are given at the end of the file only."""
        given = self._stream.read(size)
        self._last = (self._last + given[-len(END_OF_STREAM) :])[-len(END_OF_STREAM) :]
        self._came_to_end |= len(given) < size
        return given

    @property
    def begun(self) -> bool:
        """Whether anything was read."""
        return bool(self._last) or self._came_to_end

    @property
    def whole(self) -> bool:
        """Whether the mark was read last. Rows may end with its bytes, but then the file's end is read after them."""
        return self._last == END_OF_STREAM and not self._came_to_end

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The stream's record batches.

        Raises:
            InputCutShortError: it ended before its mark.
        """
        try:
            yield from pa.ipc.open_stream(self)
        except (pa.ArrowInvalid, OSError) as error:  # in the midst of a message
            raise _cut_short() from error
        if not self.whole:
            raise _cut_short()


class _Latest:
    """The input of the task that this worker runs; a worker runs one after the other."""

    watched: WatchedInput | None = None

    @classmethod
    def take(cls) -> WatchedInput | None:
        watched, cls.watched = cls.watched, None
        return watched


def watch_inputs() -> None:
    """Have every Arrow stream that Spark pipes to this process, or to one that is forked from it, read to its mark."""

    def load_stream(_serializer: Any, stream: IO[bytes]) -> Iterator[Any]:
        _Latest.watched = WatchedInput(stream)
        return _Latest.watched.batches()

    ArrowStreamSerializer.load_stream = load_stream  # type: ignore[method-assign,assignment] # PySpark has no other way in


def whole(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a ``mapInArrow`` task. This iterator ends only when they have all come.

    It trusts nobody: not that the worker watches its input, and not that whoever handed the rows on has let an error
    through.

    Raises:
        ConfigurationError: the worker does not watch its input, so that nobody could tell. Before the first row.
        InputCutShortError: the input ended before its end. After the last row that came.
    """
    watched = _Latest.take()
    if watched is None or watched.begun:  # one that was read from is an earlier task's
        raise ConfigurationError(
            "Spark's Python workers were not started by streaming.daemon, so a batch that is cut short could not be "
            "told from a whole one. Set spark.python.daemon.module=streaming.daemon and leave spark.python.use.daemon "
            "on; nothing is lost."
        )
    yield from rows
    if not watched.whole:
        raise _cut_short()


def _cut_short() -> InputCutShortError:
    return InputCutShortError(
        "What feeds this task ended too early: a Python worker was killed, perhaps for want of memory, or the task was "
        "cancelled. Nothing of the batch is committed; it is run again."
    )
