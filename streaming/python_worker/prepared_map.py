"""A function of record batches that Spark is given once, and not anew for each batch.

``DataFrame.mapInArrow`` pickles its function, has Java read the schema, and looks up each column of the frame: 8.5 ms
in each batch, on the thread that everything waits for, where this takes 0.9. What is another in each batch comes to
the tasks by a local property of Spark's, as which batch they are of does.
"""

import base64
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from checkback.exceptions import JobStoppedError

PROPERTY = "checkback.batch"
BATCH_NUMBER = "streaming.sql.batchId"
"""Spark's own property: ``MicroBatchExecution.BATCH_ID_KEY``."""

BatchFunction = Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Of what was told of the batch, and of a task's rows."""


class PreparedMap:
    """The function, and the schema of what it gives, in SQL's words."""

    def __init__(self, function: BatchFunction, schema: str) -> None:
        self._function = function
        self._schema = schema
        self._made: tuple[SparkContext, Any] | None = None

    def of(self, frame: DataFrame, number: int, told: Any) -> DataFrame:
        """What the function gives for the frame's rows in batch ``number``, of which tasks are told ``told``.

        Evaluate it in the thread that calls this, and before the next call.
        """
        context = frame.sparkSession.sparkContext
        if self._made is None or self._made[0] is not context:
            kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
            function: Any = pandas_udf(_called(self._function), self._schema, kind)  # type: ignore[call-overload]  # as mapInArrow does
            self._made = context, function()._jc  # noqa: SLF001  (likewise)
        packed = base64.b85encode(pickle.dumps((number, told))).decode()
        context.setLocalProperty(PROPERTY, packed)
        mapped: Any = frame._jdf.mapInArrow(self._made[1], False, None)  # noqa: FBT003  (Spark's own: no barrier)
        return DataFrame(mapped, frame.sparkSession)


def _called(function: BatchFunction) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def call(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(told_of_batch(), rows)

    return call


def told_of_batch() -> Any:
    """What the driver has told this task of its batch.

    Raises:
        JobStoppedError: nothing, or of another batch than the one that Spark says this is.
    """
    context = TaskContext.get()
    packed = context.getLocalProperty(PROPERTY) if context else None
    if context is None or packed is None:
        raise JobStoppedError("Spark does not hand local properties to tasks: another version than 4.2, perhaps.")
    number, told = pickle.loads(base64.b85decode(packed))  # noqa: S301  (the driver wrote it)
    running = context.getLocalProperty(BATCH_NUMBER)
    if running is not None and int(running) != number:
        raise JobStoppedError(f"A task of batch {running} was told that it is of batch {number}.")
    return told
