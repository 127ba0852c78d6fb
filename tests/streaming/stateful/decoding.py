"""Records of the half and the op topic, decoded on a real Spark and sorted in Python."""

import pickle
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace as Row
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from access.verifying import Verifier
from checkback.wire.protocol import Topics
from streaming.stateful.admission import Admission
from streaming.stateful.arrivals import arrivals_of
from streaming.stateful.decode import decode

TOPICS = Topics()
SCHEMA = (
    "topic string, partition int, offset long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, timestamp timestamp"
)
SIZE = 64
WHEN = datetime(2026, 11, 23, tzinfo=UTC)

HALF, OP, BROKEN = "half message", "op", "broken"

Headers = list[tuple[str, bytes | None]]


@lru_cache(maxsize=1)
def _one_plan(spark: SparkSession) -> tuple[DataFrame, Path]:
    """A frame that decodes what lies in a file at that moment: to plan it costs ten times as much as to run it."""
    file = Path(tempfile.mkdtemp()) / "rows"

    def rows(_: int) -> list[tuple[Any, ...]]:
        stored: list[tuple[Any, ...]] = pickle.loads(file.read_bytes())  # noqa: S301  # this module wrote it
        return stored

    records = spark.sparkContext.parallelize([0], 1).flatMap(rows)
    return decode(spark.createDataFrame(records, SCHEMA), TOPICS, SIZE), file


def decoded_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], verifier: Verifier | None = None) -> list[Row]:
    """What becomes of rows of ``SCHEMA``, as ``read`` returns it."""
    return read(decoding(spark, rows), verifier)


def decoding(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """The frame that decodes rows of ``SCHEMA``; the next call gives the same frame other rows."""
    frame, file = _one_plan(spark)
    file.write_bytes(pickle.dumps(rows))
    return frame


def in_order(frame: DataFrame) -> pa.Table:
    """Decoded records, by offset."""
    return frame.toArrow().combine_chunks().sort_by("record_offset")


def read(frame: DataFrame, verifier: Verifier | None = None) -> list[Row]:
    """What becomes of each decoded record, by offset: columns of ``state``, what it is, and its segment."""
    table = in_order(frame)
    found = []
    for batch in table.to_batches():
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            arrivals = arrivals_of([row], TOPICS, Admission(now_ms=0, delay_max_ms=10**15, verifier=verifier))
            kinds = {HALF: arrivals.halves, OP: arrivals.ops, BROKEN: arrivals.broken}
            ((kind, rows),) = ((kind, rows) for kind, rows in kinds.items() if rows.count)
            columns = {name: column[0] for name, column in rows.items()}
            more = {name: row.column(name)[0].as_py() for name in ("segment", "half_partition", "record_offset")}
            found.append(Row(**{"reason": None, **columns}, **more, kind=kind))
    return found


def decoded(
    spark: SparkSession, *records: tuple[str, Headers | None], key: bytes = b"key", value: bytes = b"value"
) -> list[Row]:
    """Decode records of the half topic (``half``) or the op topic (``op``), all on partition 1, offsets from 100."""
    topics = {"half": TOPICS.half, "op": TOPICS.op}
    given = enumerate(records, start=100)
    return decoded_rows(spark, [(topics[kind], 1, at, key, value, headers, WHEN) for at, (kind, headers) in given])


def half(*more: tuple[str, bytes | None], **changed: bytes | None) -> tuple[str, Headers | None]:
    """A half message with further headers; a keyword changes one of ours (``id=b""``), None leaves it out."""
    ours: dict[str, bytes | None] = {"id": b"tx-1", "group": b"shop", "topic": b"orders", **changed}
    return "half", [(f"cb-{name}", value) for name, value in ours.items() if value is not None] + list(more)


def op(*more: tuple[str, bytes | None], **changed: bytes | None) -> tuple[str, Headers | None]:
    """An op for the half message 1:70, changed likewise."""
    ours: dict[str, bytes | None] = {"id": b"tx-1", "group": b"shop", "half": b"1:70"}
    ours |= {"action": b"commit", "source": b"producer", **changed}
    return "op", [(f"cb-{name}", value) for name, value in ours.items() if value is not None] + list(more)
