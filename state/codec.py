r"""A segment's state as bytes, and back.

::

    version (1 byte) | CRC-32 of all that follows (uint32, little-endian, as are all numbers)
    | touched_ms, first_offset, places of the ledger (int64 each)
    | bytes of the ledger, of open and of early (int64 each)
    | ledger (zlib over one byte an offset) | open (Arrow IPC stream) | early (Arrow IPC stream)

The checksum is there because Arrow does not check the offsets it reads. An empty table has no bytes. Versions are
only ever added; a reader of the one before is kept.
"""

import struct
import zlib
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from checkback.exceptions import StateFormatError
from state.rows import BYTES, EARLY_FIELDS, OPEN_FIELDS, Fields, Rows
from state.segment import Segment

VERSION = 1

_MARK = struct.Struct("<BI")
_HEAD = struct.Struct("<6q")


def encode(segment: Segment) -> bytes:
    """Bytes of a segment's state, of this version."""
    ledger = zlib.compress(segment.ledger.tobytes(), 1)
    open_rows, early = _to_stream(segment.open, OPEN_FIELDS), _to_stream(segment.early, EARLY_FIELDS)
    times = (segment.touched_ms, segment.first_offset, len(segment.ledger))
    body = b"".join([_HEAD.pack(*times, len(ledger), len(open_rows), len(early)), ledger, open_rows, early])
    return _MARK.pack(VERSION, zlib.crc32(body)) + body


def decode(content: bytes) -> Segment:
    """Read the state of a segment.

    Raises:
        StateFormatError: written by a later version, or damaged.
    """
    if not content or content[0] != VERSION:
        raise StateFormatError(
            f"State of version {content[0] if content else 'none'}, this Checkback reads version {VERSION}: "
            "start the version that wrote the checkpoint, or a later one. Nothing was changed."
        )
    body = content[_MARK.size :]
    if len(body) < _HEAD.size or _MARK.unpack_from(content)[1] != zlib.crc32(body):
        raise StateFormatError("The state of a segment is damaged: its checksum does not fit. Restore the checkpoint.")
    touched_ms, first_offset, places, *lengths = _HEAD.unpack_from(body)
    ends = list(accumulate([_HEAD.size, *lengths]))
    ledger, open_rows, early = (body[start:end] for start, end in pairwise(ends))
    return Segment(
        first_offset=first_offset,
        ledger=np.frombuffer(zlib.decompress(ledger, bufsize=places), dtype=np.uint8).copy(),
        open=_from_stream(open_rows, OPEN_FIELDS),
        early=_from_stream(early, EARLY_FIELDS),
        touched_ms=touched_ms,
    )


def _schema(fields: Fields) -> pa.Schema:
    types = {
        name: pa.from_numpy_dtype(dtype) if dtype is not object else pa.binary() if name in BYTES else pa.string()
        for name, dtype in fields.items()
    }
    return pa.schema(types)


_SCHEMAS = {id(fields): _schema(fields) for fields in (OPEN_FIELDS, EARLY_FIELDS)}


def _to_stream(rows: Rows, fields: Fields) -> bytes:
    if not rows.count:
        return b""
    schema = _SCHEMAS[id(fields)]
    batch = pa.record_batch([pa.array(rows[field.name], field.type) for field in schema], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_stream(content: bytes, fields: Fields) -> Rows:
    if not content:
        return Rows.empty(fields)
    table = pa.ipc.open_stream(content).read_all()
    # copied, because Arrow's memory is read-only and rows are changed in place
    return Rows({name: np.array(table[name].to_numpy(), dtype=dtype) for name, dtype in fields.items()})
