r"""A segment's state as bytes, and back.

::

    version (1 byte) | CRC-32 of all that follows (uint32, little-endian, as are all numbers)
    | touched_ms, first_offset, places of the ledger (int64 each)
    | bytes of the ledger, of messages, of early and of claims (int64 each)
    | ledger (zlib over one byte an offset) | messages (Arrow IPC stream) | early (Arrow IPC stream)
    | claims (int64: all of a column, then all of the next one)

The checksum is there because Arrow does not check the offsets it reads. An empty table has no bytes. Columns of lanes
and the last answer are left out if no row has anything in them. A release that changes this takes a new version, and
keeps the reader of the version that the release before wrote.
"""

import struct
import zlib
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from checkback.exceptions import StateFormatError
from state.rows import BYTES, CLAIM_FIELDS, EARLY_FIELDS, MESSAGE_FIELDS, NO_LANE, Column, Fields, Rows
from state.segment import Segment

VERSION = 5
_STORED_AS = {"transaction_id": "tx_id", "ingested_ms": "born_ms"}
"""Columns that have another name in memory than in the stream."""

_MARK = struct.Struct("<BI")
_HEAD = struct.Struct("<7q")


def segment_to_bytes(segment: Segment) -> bytes:
    """Bytes of a segment's state, of this version."""
    ledger = zlib.compress(segment.ledger.tobytes(), 1)
    messages, early = _to_stream(segment.messages, MESSAGE_FIELDS), _to_stream(segment.early, EARLY_FIELDS)
    claims = b"".join(segment.claims[name].astype("<i8").tobytes() for name in CLAIM_FIELDS)
    times = (segment.touched_ms, segment.first_offset, len(segment.ledger))
    head = _HEAD.pack(*times, len(ledger), len(messages), len(early), len(claims))
    body = b"".join([head, ledger, messages, early, claims])
    return _MARK.pack(VERSION, zlib.crc32(body)) + body


def segment_from_bytes(content: bytes) -> Segment:
    """Read the state of a segment.

    Raises:
        StateFormatError: written by another version, or damaged.
    """
    if not content or content[0] != VERSION:
        raise StateFormatError(
            f"State of version {content[0] if content else 'none'}, this Checkback reads version {VERSION}: "
            "start the version that wrote the checkpoint. Nothing was changed."
        )
    body = content[_MARK.size :]
    if len(body) < _HEAD.size or _MARK.unpack_from(content)[1] != zlib.crc32(body):
        raise StateFormatError("The state of a segment is damaged: its checksum does not fit. Restore the checkpoint.")
    touched_ms, first_offset, places, *lengths = _HEAD.unpack_from(body)
    ends = list(accumulate([_HEAD.size, *lengths]))
    ledger, messages, early, claims = (body[start:end] for start, end in pairwise(ends))
    return Segment(
        first_offset=first_offset,
        ledger=np.frombuffer(zlib.decompress(ledger, bufsize=places), dtype=np.uint8).copy(),
        messages=_from_stream(messages, MESSAGE_FIELDS),
        early=_from_stream(early, EARLY_FIELDS),
        claims=_claims(claims),
        touched_ms=touched_ms,
    )


_SELDOM: dict[str, int | str | None] = {"lane": NO_LANE, "lane_name": None, "settled": 0, "answer": ""}
"""Columns that are left out if every row has this value, as everywhere without lanes and checks."""


def _claims(content: bytes) -> Rows:
    columns = np.frombuffer(content, dtype="<i8").astype(np.int64).reshape(len(CLAIM_FIELDS), -1)
    return Rows({name: column.copy() for name, column in zip(CLAIM_FIELDS, columns, strict=True)})


def _schema(fields: Fields) -> pa.Schema:
    types = {
        name: pa.from_numpy_dtype(dtype) if dtype is not object else pa.binary() if name in BYTES else pa.string()
        for name, dtype in fields.items()
    }
    return pa.schema({_STORED_AS.get(name, name): kind for name, kind in types.items()})


_TABLES = (MESSAGE_FIELDS, EARLY_FIELDS)
_SCHEMAS = {id(fields): _schema(fields) for fields in _TABLES}
_USUAL = {id(fields): {name: kind for name, kind in fields.items() if name not in _SELDOM} for fields in _TABLES}
_SCHEMAS |= {id(fields): _schema(fields) for fields in _USUAL.values()}


def _to_stream(rows: Rows, fields: Fields) -> bytes:
    if not rows.count:
        return b""
    if not any((rows[name] != usual).any() for name, usual in _SELDOM.items() if name in fields):
        fields = _USUAL[id(fields)]
    schema = _SCHEMAS[id(fields)]
    columns = [pa.array(rows[name], field.type) for name, field in zip(fields, schema, strict=True)]
    batch = pa.record_batch(columns, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_stream(content: bytes, fields: Fields) -> Rows:
    if not content:
        return Rows.empty(fields)
    table = pa.ipc.open_stream(content).read_all()
    there = frozenset(table.schema.names)

    def column(name: str, kind: Any) -> Column:
        stored = _STORED_AS.get(name, name)
        if stored not in there:
            return np.full(table.num_rows, _SELDOM[name], dtype=kind)
        # copied, because Arrow's memory is read-only and rows are changed in place
        return np.array(table[stored].to_numpy(), dtype=kind)

    return Rows({name: column(name, kind) for name, kind in fields.items()})
