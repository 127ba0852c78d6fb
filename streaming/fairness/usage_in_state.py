"""What producer groups have under way, counted in the state store of a batch that has ended."""

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd
from pyspark.sql import SparkSession

from state import Usage, Usages, segment_from_bytes, summed

_COLUMNS = ("open", "open_bytes", "delayed", "parked")
_SCHEMA = "group string, open long, open_bytes long, delayed long, parked long, state_bytes long"
_NOBODY = ""


class Counted(NamedTuple):
    """All state at a moment."""

    usages: Usages
    state_bytes: int
    """As it is stored."""


def usage_in_state(spark: SparkSession, checkpoint: str, batch: int) -> Counted:
    """Read the whole state as it was when this batch had ended; a running query is not disturbed.

    Raises:
        PySparkException, Py4JError: Spark has forgotten that state by now, or its folder is away.
    """
    stored = spark.read.format("statestore").option("batchId", batch).load(checkpoint)
    contents = stored.selectExpr("value.groupState.content")
    found = contents.mapInPandas(_counted, _SCHEMA).collect()
    groups = [{row["group"]: Usage(*(row[name] for name in _COLUMNS))} for row in found if row["group"] != _NOBODY]
    return Counted(summed(groups), sum(row["state_bytes"] for row in found))


def _counted(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        usages = summed([segment_from_bytes(bytes(content)).usage() for content in frame["content"]])
        size = sum(len(content) for content in frame["content"])
        rows = [(group, *usage, 0) for group, usage in usages.items()] + [(_NOBODY, 0, 0, 0, 0, size)]
        yield pd.DataFrame(rows, columns=["group", *_COLUMNS, "state_bytes"])
