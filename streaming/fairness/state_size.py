"""How many segments go to Python together, so that their states fit into memory.

Spark packs the states of all segments that a task touches into Arrow batches, and ends one when it has as many *rows*
as ``spark.sql.execution.arrow.maxRecordsPerBatch`` says, whatever it weighs (``ApplyInPandasWithStateWriter``, 4.2). A
segment whose timer is due has one row. A gigabyte of state in one batch ends the JVM, at each start. So above a size of
all state Arrow batches are small, which is slower, but continues.
"""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import JobStoppedError
from streaming.folders import Folder

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MANY, FEW = 20_000, 32
_SHARE_OF_MEMORY = 4
"""States of all partitions together may have a quarter of the driver's memory before batches are small. Arrow's buffers
grow by doubling, and some partitions are evaluated at once."""
_MARKER = "checkback-much-state"


class ArrowRows:
    """Tells Spark how many rows an Arrow batch may have; kept in the checkpoint folder, for the next start.

    The same rows in more batches come to the same outcomes, so that it may be another number when a batch is run again.
    ``many`` is the number where there is little state.
    """

    def __init__(self, spark: SparkSession, checkpoint: Folder, memory_bytes: int, many: int = MANY) -> None:
        self._checkpoint = checkpoint
        self._most_bytes = memory_bytes // _SHARE_OF_MEMORY
        self._many, self._few = many, min(many, FEW)
        self._now = self._few if _MARKER in checkpoint.children() else many
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
        if state_bytes is None:
            return self._now
        rows = self._few if state_bytes > self._most_bytes else self._many
        if rows == self._now:
            return rows
        if rows == self._few:  # a crash must not find much state and no marker
            self._checkpoint.write(_MARKER, b"")
        self._tell(rows)
        if rows == self._many:
            self._checkpoint.remove(_MARKER)
        self._now = rows
        return rows

    def _tell(self, rows: int) -> None:
        if self._query is None:
            return
        try:
            stream: Any = self._query._jsq.streamingQuery()
            stream.sparkSessionForStream().conf().set(ROWS, str(rows))
        except (Py4JError, TypeError, AttributeError) as error:
            raise JobStoppedError("Spark cannot be told how large Arrow batches are: not 4.2, perhaps.") from error
