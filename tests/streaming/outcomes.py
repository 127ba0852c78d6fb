"""Rows of outcomes, as a task of the sink gets them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from state import OutcomeKind

SCHEMA = pa.schema(
    {
        "half_partition": pa.int32(),
        "kind": pa.int8(),
        "transaction_id": pa.string(),
        "group": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.string(),
        "half_offset": pa.int64(),
        "attempt": pa.int32(),
        "check_max": pa.int32(),
        "ingested_ms": pa.int64(),
        "left_out": pa.int64(),
        "reason": pa.string(),
    }
)


def outcome(topic: str, **columns: Any) -> dict[str, Any]:
    """One row of outcomes: a delivery, unless the columns say otherwise."""
    row = {"half_partition": 0, "kind": OutcomeKind.DELIVER, "transaction_id": "tx-1", "group": "shop", "topic": topic}
    rest = {"partition": -1, "key": None, "value": b"v", "headers": None, "half_offset": 7, "attempt": 1}
    return {**row, **rest, "check_max": 15, "ingested_ms": 0, "left_out": -1, "reason": "", **columns}


def rows(*outcomes: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Outcomes as a task gets them."""
    yield pa.RecordBatch.from_pylist(list(outcomes), schema=SCHEMA)
