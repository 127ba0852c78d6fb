"""The rows of a task: pulled once from Spark, and readable again when Kafka has refused some of them."""

import contextlib
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from checkback.exceptions import InputCutShortError


class ReplayableBatches:
    """Arrow batches of one schema; use it as a context manager.

    Each is pulled from ``source`` once, in order, when an iteration gets to it; a later iteration gives those again
    and continues where the source was. Up to ``most_bytes`` of them are kept in memory, the others in a temporary
    Arrow file that is gone with this object.
    """

    def __init__(self, source: Iterator[pa.RecordBatch], most_bytes: int) -> None:
        self._source = self._pull(source)
        self._whole = False
        self._lost = False
        self._most_bytes = most_bytes
        self._in_memory: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = 0
        """Number of pieces that are in the file."""
        self._file: Any = None
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._writer is not None:
            with self._file, contextlib.suppress(OSError, pa.ArrowException):  # what is written now is of no use
                self._writer.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self.pulled()
        for piece in self._source:
            self._keep(piece)
            yield piece

    @property
    def empty(self) -> bool:
        """Whether there is no row at all; pulls the first piece."""
        return next(iter(self), None) is None

    @property
    def whole(self) -> bool:
        """Whether the source has said that it has no more, and every piece of it is here or was given.

        A source that has raised looks exhausted, too, and is not.
        """
        return self._whole and not self._lost

    def refuse_missing(self) -> None:
        """For who is about to act as if these were all.

        Raises:
            InputCutShortError: they are not.
        """
        if not self.whole:
            raise InputCutShortError("Not all rows of the batch have come: nothing is committed, it is run again.")

    def pulled(self) -> Iterator[pa.RecordBatch]:
        """Those that have been pulled until now."""
        yield from self._in_memory
        if self._spilled:
            with pa.OSFile(self._file.name) as written, pa.ipc.open_stream(written) as reader:
                # no end is written to the file before it is closed: so many, not until its end
                for _ in range(self._spilled):
                    yield reader.read_next_batch()

    def pull(self) -> None:
        """Pull what is left, to be iterated over later."""
        for piece in self._source:
            self._keep(piece)

    def _pull(self, source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in source:
            if piece.num_rows:
                yield piece
        self._whole = True

    def _keep(self, piece: pa.RecordBatch) -> None:
        lost, self._lost = self._lost, True  # until it is kept: a full disk may keep it from being
        self._store(piece)
        self._lost = lost

    def _store(self, piece: pa.RecordBatch) -> None:
        if self._spilled == 0 and self._bytes + piece.nbytes <= self._most_bytes:
            self._in_memory.append(piece)
            self._bytes += piece.nbytes
            return
        if self._writer is None:
            self._file = tempfile.NamedTemporaryFile(prefix="checkback-", suffix=".arrow")  # noqa: SIM115  (closed in __exit__)
            self._writer = pa.ipc.new_stream(pa.OSFile(self._file.name, "wb"), piece.schema)
        self._writer.write_batch(piece)
        self._spilled += 1
