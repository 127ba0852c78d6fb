"""Frames of decoded records to the columns of ``state``."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from checkback.exceptions import ProtocolError
from checkback.wire.limits import MAX_UNFOLDED_BYTES, MESSAGE_BYTES, TOGETHER, header_bytes, several_too_large
from checkback.wire.message_json import to_base64, unpack
from checkback.wire.protocol import GROUP, ID, MESSAGES, TOPIC, Topics
from state import BROKEN_FIELDS, BUNDLE, HALF_FIELDS, OP_FIELDS, Arrivals, Fields, Rows
from state.rows import Column, objects
from streaming.batch.headers import Headers, application_headers
from streaming.stateful.admission import Admission
from streaming.stateful.broken import OPTIONS
from streaming.stateful.decode import BROKEN_KIND, HALF_KIND, OP_KIND

# An arriving row's columns under the names that state.rows gives them.
_OP_NAMES = {"half_offset": "offset", "action": "topic"}
# What is wrong may be a name as long as the record; with it twice the record would be too large for cb.rejected.
_REASON_CHARACTERS = 300
_FIRST_HEADERS = ((ID, "transaction_id"), (GROUP, "group"), (TOPIC, "topic"))
_OWN_ID = f'"key":"{ID}"'
_OPTION_FIELDS = ("partition", "immunity_ms", "check_max", "deliver_at_ms")
_MESSAGES, _HELD = OPTIONS.index(MESSAGES), len(OPTIONS)
_PLAIN_HALF_FIELDS = {name: kind for name, kind in HALF_FIELDS.items() if name not in _OPTION_FIELDS}


def arrivals_of(chunks: list[pa.RecordBatch], topics: Topics, admission: Admission) -> Arrivals:
    """What a batch brings for one segment, from record batches with the columns of ``streaming.stateful.decode``.

    A half message that is not admitted, or whose value should be several messages and is not, becomes a broken record.
    """
    halves = _rows(chunks, HALF_KIND, {**_PLAIN_HALF_FIELDS, "options": object}, {})
    broken = _rows(chunks, BROKEN_KIND, BROKEN_FIELDS, {})
    options = _options(halves["options"])
    columns = {**halves, **{name: options[:, at] for at, name in enumerate(_OPTION_FIELDS)}}
    halves = Rows({name: columns[name].astype(kind, copy=False) for name, kind in HALF_FIELDS.items()})
    reasons = admission.reasons(halves, options[:, _HELD] >= 0)
    several = options[:, _MESSAGES] >= 0
    halves["partition"][several] = BUNDLE
    # what is wrong with one that was set aside is found when it is read again
    for row in np.flatnonzero(several & (halves["left_out"] < 0)).tolist():
        headers = application_headers(halves["headers"][row])
        if reason := wrong_with(halves["value"][row], headers, int(options[row, _MESSAGES]), topics):
            reasons[row] = reason
    wrong = sorted(reasons)
    if wrong:
        broken = Rows.concat([broken, _broken(halves.take(np.array(wrong)), [reasons[row] for row in wrong], topics)])
        halves = halves.take(np.setdiff1d(np.arange(halves.count), wrong))
    return Arrivals(halves=halves, ops=_rows(chunks, OP_KIND, OP_FIELDS, _OP_NAMES), broken=broken)


def _rows(chunks: list[pa.RecordBatch], wanted: int, fields: Fields, names: dict[str, str]) -> Rows:
    parts = []
    for chunk in chunks:
        chosen = np.flatnonzero(chunk.column("kind").to_numpy(zero_copy_only=False) == wanted)
        if len(chosen):
            rows = chunk if len(chosen) == len(chunk) else chunk.take(pa.array(chosen))
            columns = {name: rows.column(names.get(name, name)) for name in fields}
            parts.append(Rows({name: _column(columns[name], kind) for name, kind in fields.items()}))
    return Rows.concat(parts) if parts else Rows.empty(fields)


def _column(values: pa.Array, kind: Any) -> Column:
    """A column that may be written to: Arrow's own memory may not."""
    found = values.to_numpy(zero_copy_only=False)
    return found if kind is object else found.astype(kind)


def _options(written: Column) -> Column:
    """int64[n, 6]: the numbers that ``decode.OPTIONS`` names, and held; -1 for one that is not given."""
    numbers = np.full((len(written), len(OPTIONS) + 1), -1, dtype=np.int64)
    for row in np.flatnonzero(pd.notna(written)):
        spelled = written[row].split(",")
        numbers[row, : len(spelled)] = [int(number) if number else -1 for number in spelled]
    return numbers


def wrong_with(value: bytes | None, common: Headers, count: int, topics: Topics) -> str | None:
    """Why a value is not ``count`` messages that may be delivered with ``common`` headers, None when it is."""
    if count * (header_bytes(common) + MESSAGE_BYTES) > MAX_UNFOLDED_BYTES:
        return TOGETHER
    try:
        messages = unpack(value)
    except ProtocolError as error:
        return str(error)[:_REASON_CHARACTERS]
    if len(messages) != count:
        return f"cb-messages says {count}, its value holds {len(messages)}"
    if any(message.topic in topics.all() or message.topic.startswith("__") for message in messages):
        return "a message's topic is one of Checkback's or Kafka's own"
    return several_too_large(messages, common) or None


def _broken(halves: Rows, reasons: Sequence[str], topics: Topics) -> Rows:
    columns = {name: halves[name] for name in ("offset", "key", "value", "left_out")}
    topic = np.full(halves.count, topics.half, dtype=object)
    headers = objects([_all_headers(halves, row) for row in range(halves.count)])
    rows = {**columns, "headers": headers, "topic": topic, "reason": objects(reasons)}
    return Rows({name: rows[name] for name in BROKEN_FIELDS})


def _all_headers(halves: Rows, row: int) -> str | None:
    """A half message's headers as they were written; ``decode`` leaves out our own where they come first.

    None where they may have been set aside: who reads the content again reads them all.
    """
    if halves["left_out"][row] >= 0 and halves["headers"][row] is None:
        return None
    packed: str = halves["headers"][row] or "[]"
    if _OWN_ID in packed:
        return packed
    ours = [{"key": name, "value": to_base64(halves[column][row].encode())} for name, column in _FIRST_HEADERS]
    return json.dumps(ours, separators=(",", ":"))[:-1] + ("," if packed != "[]" else "") + packed[1:]
