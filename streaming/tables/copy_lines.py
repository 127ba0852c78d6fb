r"""Rows of a table as PostgreSQL's COPY reads them: CSV, each field quoted, nulls bare.

PostgreSQL keeps no NUL character in text. Ids, groups and names of headers may have one in Kafka; it is written as the
six characters ``\u0000``.
"""

import json
from base64 import b64encode
from typing import Any

import pyarrow as pa

COLUMNS = {
    "id": "text",
    "topic": "text",
    "partition": "int",
    "key": "bytea",
    "value": "bytea",
    "headers": "jsonb",
    "producer_group": "text",
    "half": "text",
    "batch": "bigint",
}
"""Columns of ``TABLE_SCHEMA`` with PostgreSQL's types."""


def copy_lines(rows: pa.RecordBatch) -> bytes:
    """Rows (``TABLE_SCHEMA``) for ``COPY ... FROM STDIN (FORMAT csv)``, in the order of :data:`COLUMNS`."""
    columns = [[_SPELLED[kind](one) for one in rows.column(name).to_pylist()] for name, kind in COLUMNS.items()]
    return "".join(",".join(fields) + "\n" for fields in zip(*columns, strict=True)).encode()


def _text(text: str) -> str:
    return '"' + text.replace("\0", "\\u0000").replace('"', '""') + '"'


def _bytes(content: bytes | None) -> str:
    return "" if content is None else f"\\x{content.hex()}"


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _headers(headers: list[dict[str, Any]]) -> str:
    """A list, since order and repeated names count; values in base64, since they are bytes."""
    if not headers:
        return "[]"
    spelled = [
        {
            "key": header["key"].replace("\0", "\\u0000"),
            "value": None if header["value"] is None else b64encode(header["value"]).decode(),
        }
        for header in headers
    ]
    return _text(json.dumps(spelled, ensure_ascii=False))


_SPELLED: dict[str, Any] = {"text": _text, "bytea": _bytes, "int": _number, "bigint": _number, "jsonb": _headers}
