"""What producer groups have under way, counted in the state store of a batch that has ended."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pandas as pd
from pyspark.sql import SparkSession

from state import Usage, Usages, segment_from_bytes, summed
from streaming.batch.batch import OpenBySegment, open_by_segment, open_to_json
from streaming.folders import path_of_state

_COLUMNS = ("open", "open_bytes", "delayed", "parked")
_SCHEMA = "group string, open long, open_bytes long, delayed long, parked long, state_bytes long, still_open string"
_NOBODY = ""


class StateCount(NamedTuple):
    """All state at a moment."""

    usages: Usages
    state_bytes: int
    """As it is stored."""
    still_open: OpenBySegment


def usage_in_state(spark: SparkSession, checkpoint: str, batch: int, retry_prefix: str) -> StateCount:
    """Read the whole state as it was when this batch had ended; a running query is not disturbed.

    Raises:
        PySparkException, Py4JError: Spark has forgotten that state by now, or its folder is away.
    """
    stored = spark.read.format("statestore").option("batchId", batch).load(path_of_state(spark, checkpoint))
    contents = stored.selectExpr("key.half_partition", "value.groupState.content")
    found = contents.mapInPandas(partial(_counted, retry_prefix), _SCHEMA).collect()
    groups = [{row["group"]: Usage(*(row[name] for name in _COLUMNS))} for row in found if row["group"] != _NOBODY]
    still_open = open_by_segment(row["still_open"] for row in found if row["group"] == _NOBODY)
    return StateCount(summed(groups), sum(row["state_bytes"] for row in found), still_open)


def _counted(retry_prefix: str, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        segments = [segment_from_bytes(bytes(content)) for content in frame["content"]]
        usages = summed([segment.usage(retry_prefix) for segment in segments])
        places = zip(frame["half_partition"].tolist(), segments, strict=True)
        still_open = {(partition, one.first_offset): one.open_by_topic() for partition, one in places}
        size = sum(len(content) for content in frame["content"])
        rows = [(group, *usage, 0, "") for group, usage in usages.items()]
        rows.append((_NOBODY, 0, 0, 0, 0, size, open_to_json({place: of for place, of in still_open.items() if of})))
        yield pd.DataFrame(rows, columns=["group", *_COLUMNS, "state_bytes", "still_open"])
