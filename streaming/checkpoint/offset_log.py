"""The files of Spark's offset log and commit log, as far as a start and the sink have to understand them.

An entry of the offset log is a line with the log's version, one with the batch's metadata, one for each source; it is
written before the batch is run. The commit log gets a file of the same number after it. Both were read from Spark 4.2,
``OffsetSeqLog`` and ``CommitLog``. A file that a power loss left empty or short is called *torn*.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

_SOURCES = 2
"""The Kafka source and the clock: see :func:`streaming.query.outcome_frame`."""


@dataclass(frozen=True)
class Entry:
    """A batch's entry in the offset log. Times in milliseconds since 1970."""

    number: int
    content_hash: str
    time_ms: int
    watermark_ms: int
    sources: tuple[Any, ...] = ()
    """Where the batch ends: for Kafka ``{topic: {partition: offset}}``, for the clock a number."""

    @property
    def late(self) -> bool:
        """Whether Spark would drop every row of the batch: its ingest time is not after the watermark."""
        return self.time_ms <= self.watermark_ms

    @property
    def seconds(self) -> int:
        """Where the batch ends in the clock."""
        return next((source for source in self.sources if isinstance(source, int)), 0)

    def read_to(self) -> dict[tuple[str, int], int]:
        """Where the batch ends in each partition of Kafka."""
        return {
            (topic, int(partition)): int(offset)
            for source in self.sources
            if isinstance(source, dict)
            for topic, partitions in source.items()
            for partition, offset in partitions.items()
        }


def read_entry(number: int, content: bytes) -> Entry | None:
    """An entry of the offset log; None when it is torn."""
    lines = content.splitlines()
    if len(lines) != 2 + _SOURCES or not lines[0].startswith(b"v"):
        return None
    try:
        metadata, *sources = (json.loads(line) for line in lines[1:])
        times = int(metadata["batchTimestampMs"]), int(metadata["batchWatermarkMs"])
    except (ValueError, KeyError, TypeError):
        return None
    return Entry(number, hashlib.sha256(content).hexdigest(), *times, tuple(sources))


def shuffle_partitions(content: bytes) -> int | None:
    """How many partitions the batch's state has, from its entry; None when that is torn."""
    if read_entry(0, content) is None:
        return None
    try:
        return int(json.loads(content.splitlines()[1])["conf"]["spark.sql.shuffle.partitions"])
    except (ValueError, KeyError, TypeError):
        return None


def committed_watermark_ms(content: bytes) -> int | None:
    """The watermark of the next batch, from a file of the commit log; None when that is torn."""
    lines = content.splitlines()
    try:
        return int(json.loads(lines[1])["nextBatchWatermarkMs"]) if lines[0].startswith(b"v") else None
    except (ValueError, KeyError, TypeError, IndexError):
        return None
