"""Spark's reports of the batches of a query."""

import json
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import JobStoppedError


class ProgressReports:
    """What Spark says of each batch of a query, each once.

    Spark keeps a hundred, and ``recentProgress`` reads them all each time: every second, 5 ms for 59 of a query without
    state, where this takes 0.3.
    """

    def __init__(self) -> None:
        self._last: tuple[int, str] | None = None

    def new(self, query: StreamingQuery) -> list[StreamingQueryProgress]:
        """Those that have come since the last call, the oldest first."""
        kept: Any = query._jsq.recentProgress()
        found: list[StreamingQueryProgress] = []
        newest = self._last
        for at in reversed(range(len(kept))):
            which = int(kept[at].batchId()), str(kept[at].timestamp())
            if which == self._last:
                break
            newest = which if not found else newest
            found.append(StreamingQueryProgress.fromJson(json.loads(kept[at].json())))
        self._last = newest
        return found[::-1]


def refuse_dropped_rows(progress: Any) -> None:
    """Notice rows that Spark has dropped as late.

    Raises:
        JobStoppedError: there are some.
    """
    dropped = sum(one["numRowsDroppedByWatermark"] for one in (progress or {}).get("stateOperators", []))
    if dropped:
        raise JobStoppedError(
            f"Spark dropped {dropped} rows as late: the clock stepped back by more than job.clock_tolerance. Set "
            "the clock. Kafka still has the rows; a new checkpoint folder ('checkback run --new-checkpoint') reads "
            "them, and re-delivers everything that Kafka still has: consumers must deduplicate by cb-id."
        )
