r"""A segment's state as bytes, and back.

::

    version (1 byte) | touched_ms, first_offset, size, length of the ledger (int64 each, little-endian)
    | ledger (zlib over one byte an offset) | length of open (int64) | open (Arrow IPC stream) | early (the same)

An empty table has no bytes. Versions are only ever added; a reader of the one before is kept.
"""

import struct
import zlib

import numpy as np
import pyarrow as pa

from checkback.exceptions import StateFormatError
from state.rows import EARLY_FIELDS, OPEN_FIELDS, Fields, Rows
from state.segment import Segment

VERSION = 1

_HEAD = struct.Struct("<Bqqqq")
_LENGTH = struct.Struct("<q")
_BINARY = frozenset({"key", "value"})


def encode(segment: Segment) -> bytes:
    """Bytes of a segment's state, of this version."""
    ledger = zlib.compress(segment.ledger.tobytes(), 1)
    table = _to_stream(segment.open, OPEN_FIELDS)
    head = _HEAD.pack(VERSION, segment.touched_ms, segment.first_offset, len(segment.ledger), len(ledger))
    return b"".join([head, ledger, _LENGTH.pack(len(table)), table, _to_stream(segment.early, EARLY_FIELDS)])


def decode(content: bytes) -> Segment:
    """Read the state of a segment.

    Raises:
        StateFormatError: written by a later version, or torn.
    """
    if not content or content[0] != VERSION:
        raise StateFormatError(
            f"State of version {content[0] if content else 'none'}, this Checkback reads version {VERSION}: "
            "start the version that wrote the checkpoint, or a later one. Nothing was changed."
        )
    try:
        _, touched_ms, first_offset, size, length = _HEAD.unpack_from(content)
        at = _HEAD.size + length
        ledger = np.frombuffer(zlib.decompress(content[_HEAD.size : at]), dtype=np.uint8).copy()
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        return Segment(
            first_offset=first_offset,
            ledger=_sized(ledger, size),
            open=_from_stream(content[at : at + length], OPEN_FIELDS),
            early=_from_stream(content[at + length :], EARLY_FIELDS),
            touched_ms=touched_ms,
        )
    except (struct.error, zlib.error, pa.ArrowException, KeyError) as error:
        raise StateFormatError(f"The state of a segment cannot be read, its bytes are damaged: {error}") from error


def _sized(ledger: np.ndarray[tuple[int], np.dtype[np.uint8]], size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    if len(ledger) != size:
        raise StateFormatError(f"A ledger of {len(ledger)} places where {size} were written.")
    return ledger


def _schema(fields: Fields) -> pa.Schema:
    types = {
        name: pa.from_numpy_dtype(dtype) if dtype is not object else pa.binary() if name in _BINARY else pa.string()
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
