"""What a batch brings for one segment, as far as it is taken in."""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from checkback.exceptions import ProtocolError
from checkback.wire.limits import MAX_UNFOLDED_BYTES, MESSAGE_BYTES, TOGETHER, header_bytes, several_too_large
from checkback.wire.message_json import to_base64, unpack
from checkback.wire.protocol import GROUP, ID, LANE, MESSAGES, TOPIC, Topics
from state import BROKEN_FIELDS, BUNDLE, Arrivals, Rows
from state.rows import objects
from streaming.access.told import why_not_together
from streaming.batch.headers import Headers, application_headers
from streaming.stateful.admission import Admission
from streaming.stateful.broken import OPTIONS
from streaming.stateful.sorting import SortedRecords

# What is wrong may be a name as long as the record; with it twice the record would be too large for cb.rejected.
_REASON_CHARACTERS = 300
_FIRST_HEADERS = ((ID, "transaction_id"), (GROUP, "group"), (TOPIC, "topic"), (LANE, "lane_name"))
_OWN_ID = f'"key":"{ID}"'
_MESSAGES = OPTIONS.index(MESSAGES)


def arrivals_of(chunks: list[pa.RecordBatch], topics: Topics, admission: Admission) -> Arrivals:
    """What record batches with the columns of ``streaming.stateful.decode`` bring.

    A half message that is not admitted, or whose value should be several messages and is not, becomes a broken record.
    """
    found = SortedRecords(topics, admission.verifier)
    for chunk in chunks:
        found.add(chunk)
    halves, options = found.halves()
    broken = found.broken()
    reasons = admission.reasons(halves, halves["held"] == 1)
    several = options[:, _MESSAGES] >= 0
    halves["partition"][several] = BUNDLE
    # what is wrong with one that was set aside is found when it is read again
    for row in np.flatnonzero(several & (halves["left_out"] < 0)).tolist():
        headers = application_headers(halves["headers"][row])
        why_not = partial(why_not_together, admission.policy, halves["group"][row])
        if reason := wrong_with(halves["value"][row], headers, int(options[row, _MESSAGES]), topics, why_not):
            reasons[row] = reason
    wrong = sorted(reasons)
    if wrong:
        broken = Rows.concat([broken, _broken(halves.take(np.array(wrong)), [reasons[row] for row in wrong], topics)])
        halves = halves.take(np.setdiff1d(np.arange(halves.count), wrong))
    return Arrivals(halves=halves, ops=found.ops(), broken=broken)


def wrong_with(
    value: bytes | None, common: Headers, count: int, topics: Topics, why_not: Callable[[Collection[str]], str]
) -> str | None:
    """Why a value is not ``count`` messages that may be delivered with ``common`` headers, None when it is.

    ``why_not``: of real topics, why its group may not send to them; empty when it may.
    """
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
    return why_not([message.topic for message in messages]) or several_too_large(messages, common) or None


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
    texts = [(name, halves[column][row]) for name, column in _FIRST_HEADERS]
    ours = [{"key": name, "value": to_base64(text.encode())} for name, text in texts if text is not None]
    return json.dumps(ours, separators=(",", ":"))[:-1] + ("," if packed != "[]" else "") + packed[1:]
