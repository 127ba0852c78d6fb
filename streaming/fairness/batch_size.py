"""How many records the next batch may read, so that it stays bounded by bytes and not by their number alone.

Spark's Kafka source counts records: its only limit is ``maxOffsetsPerTrigger`` (``KafkaMicroBatchStream.latestOffset``,
4.2). What a record weighs is known only from batches that were read. So a start reads little, and every batch says how
much the next one may read.
"""

from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from checkback.exceptions import JobStoppedError

FIRST_RECORDS = 4_000
"""Of the first batch after a start: 4 GB at the most, when each is as large as Kafka takes by default."""
_FEWEST_RECORDS = 64
GROWTH = 16
"""Times as many, after a batch that came near its limit."""
_REMEMBERED = 0.5


@dataclass
class BatchSize:
    """Records of the next batch, from what the batches before weighed.

    The limit grows at most sixteenfold, after a batch that came near it, and shrinks at once when a batch was heavier
    than ``most_bytes``. It does not shrink in idle times: what comes within one batch of a running job is bounded by
    the network.
    """

    most_records: int
    most_bytes: int
    records: int = field(init=False)
    """What the next batch may read."""
    _bytes_seen: float = field(init=False, default=0.0)
    _records_seen: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.records = min(FIRST_RECORDS, self.most_records)

    def after(self, records: int, content_bytes: int) -> int:
        """Learn what a batch of ``records`` weighed, and say how many the next one may have."""
        if records <= 0:
            return self.records
        full = records >= self.records // 2  # offsets of a batch are shared out to partitions, and rounded
        self._records_seen = self._records_seen * _REMEMBERED + records
        self._bytes_seen = self._bytes_seen * _REMEMBERED + content_bytes
        latest = content_bytes / records if full else 0.0  # a few records of a batch that was not full say little
        average = max(1.0, self._bytes_seen / self._records_seen, latest)
        affordable = int(self.most_bytes / average)
        allowed = self.records * GROWTH if full else self.records
        self.records = max(min(affordable, allowed, self.most_records), min(_FEWEST_RECORDS, self.most_records))
        return self.records


class ReadLimit:
    """Tells a running query how many records its next batch may read.

    Spark asks a source for its limit once, when the query starts, and hands the same object to it for each batch. The
    number in it is set; nothing else of Spark's is touched. A batch that is in the offset log keeps its offsets.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._set: Any = None
        self._now = 0

    def set(self, records: int) -> None:
        """From the next batch on.

        Raises:
            JobStoppedError: this Spark does not have it where 4.2 has.
        """
        if records == self._now:
            return
        try:
            if self._set is None:
                self._set = self._limit_of_kafka()
            self._set(records)
        except (Py4JError, TypeError, AttributeError) as error:
            raise JobStoppedError(
                "Spark does not say how much a batch may read: another version than 4.2, perhaps."
            ) from error
        self._now = records

    def _limit_of_kafka(self) -> Any:
        limits = self._query._jsq.streamingQuery().uniqueSources().values().iterator()
        while limits.hasNext():
            limit = limits.next()
            if limit.getClass().getSimpleName() == "ReadMaxRows":
                rows = limit.getClass().getDeclaredField("rows")
                rows.setAccessible(True)
                return lambda records: rows.setLong(limit, records)
        raise TypeError("no source has a limit of records")
