"""Starts Spark's Python workers while the job still reads its checkpoint, so that the first batch finds them."""

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_LOGGER = logging.getLogger(__name__)
_NAME = "start-python-workers"


def start_workers_early(spark: SparkSession, number: int) -> None:
    """Have Spark start its daemon (``streaming.daemon``, with all its imports) and ``number`` workers, in a thread.

    It waits for nothing. A failure is logged and does no harm: the first batch starts what is missing.
    """
    threading.Thread(target=_start, args=(spark, number), name=_NAME, daemon=True).start()


def _start(spark: SparkSession, number: int) -> None:
    try:
        rows = spark.range(0, number, 1, number)
        started = rows.mapInArrow(_unchanged, rows.schema)
        started._jdf.queryExecution().toRdd().count()  # a writer logs four errors if the job is stopped meanwhile
    except (PySparkException, Py4JError, OSError) as error:  # as when the job is stopped meanwhile
        _LOGGER.debug("Python workers could not be started early: %s", error)


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
