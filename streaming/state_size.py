"""How many segments go to Python together, so that their states fit into memory.

Spark packs the states of all segments that a task touches into Arrow batches, and ends one when it has as many *rows*
as ``spark.sql.execution.arrow.maxRecordsPerBatch`` says, whatever it weighs (``ApplyInPandasWithStateWriter``, 4.2). A
segment whose timer is due has one row. A gigabyte of state in one batch ends the JVM, at each start. So above a size of
all state Arrow batches are small, which is slower, but goes on.
"""

from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import JobStoppedError
from streaming.sinks.folders import Folder

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MANY, FEW = 20_000, 32
_SHARE_OF_MEMORY = 4
"""States of all partitions together may have a quarter of the driver's memory before batches are small. Arrow's buffers
grow by doubling, and some partitions are evaluated at once."""
_MARKER = "checkback-much-state"


@dataclass
class StateSize:
    """Bytes of all state, in sum. Not known before :meth:`begin_with` has said what there was."""

    bytes: int | None = None
    _known_from: int = field(init=False, default=-1)
    _since_start: list[tuple[int, int]] = field(init=False, default_factory=list)

    def changed(self, batch: int, by: int) -> None:
        """Take in by how many bytes a batch has changed it."""
        if self.bytes is None:
            self._since_start.append((batch, by))
        elif batch > self._known_from:
            self.bytes += by

    def begin_with(self, batch: int, total: int) -> None:
        """Take in what there was when this batch had ended."""
        self.bytes = total + sum(by for number, by in self._since_start if number > batch)
        self._known_from = batch
        self._since_start.clear()


class ArrowRows:
    """Tells Spark how many rows an Arrow batch may have; kept in the checkpoint folder, for the next start.

    The same rows in more batches come to the same outcomes, so that it may be another number when a batch is run again.
    """

    def __init__(self, spark: SparkSession, checkpoint: Folder, memory_bytes: int) -> None:
        self._checkpoint = checkpoint
        self._most_bytes = memory_bytes // _SHARE_OF_MEMORY
        self._now = FEW if _MARKER in checkpoint.children() else MANY
        self._query: StreamingQuery | None = None
        spark.conf.set(ROWS, str(self._now))  # of the query that is started next

    def watch(self, query: StreamingQuery) -> None:
        """The query that is told from now on."""
        self._query = query

    def after(self, state_bytes: int | None) -> int:
        """Decide between two batches, from the size of all state; None: nobody knows it yet, all stays as it is.

        Returns:
            The rows of an Arrow batch from the next batch on.

        Raises:
            JobStoppedError: this Spark cannot be told.
            OSError, Py4JError: the checkpoint folder is away.
        """
        rows = self._now if state_bytes is None else FEW if state_bytes > self._most_bytes else MANY
        if rows == self._now:
            return rows
        if rows == FEW:  # a crash must not find much state and no marker
            self._checkpoint.write(_MARKER, b"")
        self._tell(rows)
        if rows == MANY:
            self._checkpoint.remove(_MARKER)
        self._now = rows
        return rows

    def _tell(self, rows: int) -> None:
        if self._query is None:
            return
        try:
            stream: Any = self._query._jsq.streamingQuery()  # noqa: SLF001
            stream.sparkSessionForStream().conf().set(ROWS, str(rows))
        except (Py4JError, TypeError, AttributeError) as error:
            raise JobStoppedError("Spark cannot be told how large Arrow batches are: not 4.2, perhaps.") from error
