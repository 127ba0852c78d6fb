"""Rows of outcomes, as a task of the sink gets them."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from state import OutcomeKind

_NUMBER, _OFFSET, _TEXT, _BYTES = pa.int32(), pa.int64(), pa.string(), pa.binary()
_NAMES = {"half_partition": _NUMBER, "kind": pa.int8(), "transaction_id": _TEXT, "group": _TEXT, "topic": _TEXT}
_CONTENT = {"partition": _NUMBER, "key": _BYTES, "value": _BYTES, "headers": _TEXT, "half_offset": _OFFSET}
_STATE = {"attempt": _NUMBER, "check_max": _NUMBER, "ingested_ms": _OFFSET, "left_out": _OFFSET, "reason": _TEXT}
SCHEMA = pa.schema({**_NAMES, **_CONTENT, **_STATE})


def outcome(topic: str, **columns: Any) -> dict[str, Any]:
    """One row of outcomes: a delivery, unless the columns say otherwise."""
    row = {"half_partition": 0, "kind": OutcomeKind.DELIVER, "transaction_id": "tx-1", "group": "shop", "topic": topic}
    rest = {"partition": -1, "key": None, "value": b"v", "headers": None, "half_offset": 7, "attempt": 1}
    return {**row, **rest, "check_max": 15, "ingested_ms": 0, "left_out": -1, "reason": "", **columns}


def rows(*outcomes: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Outcomes as a task gets them."""
    yield pa.RecordBatch.from_pylist(list(outcomes), schema=SCHEMA)
