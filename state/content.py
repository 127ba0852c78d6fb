"""Which content of half messages is carried along, and which lies in the half topic alone.

A message's content is its key, value and headers. Whoever writes a message whose content was set aside reads it again,
by partition and offset (``streaming/kafka_sink/content.py``). So a segment's state is bounded by how many messages it
has.
"""

import numpy as np

from state.rows import Column, Rows

SHUFFLED_BYTES = 16 * 1024
"""A half message with more content comes without it already."""
KEPT_BYTES = 4 * 1024
"""A message with more content is kept without its value, and without its headers where these and the key are more than
this by themselves. The key stays, unless it alone is more: checks are of little use without it."""


def content_bytes(rows: Rows) -> Column:
    """int64[n]: bytes of key, value and headers, wherever they are."""
    here = _here(rows, "key", "value", "headers")
    return here + np.maximum(rows["left_out"], 0) if "left_out" in rows else here


def value_bytes(messages: Rows) -> Column:
    """int64[n]: bytes of the value, wherever it is; with those of headers and key where these were set aside, too."""
    left_out = messages["left_out"]
    return np.where(left_out >= 0, left_out, _here(messages, "value"))


def set_aside(messages: Rows, chosen: Column) -> None:
    """Let go of the content of those messages of a mask that are too large to be kept with it, in place."""
    if not chosen.any():
        return
    left_out = messages["left_out"]
    large = chosen & (left_out < 0) & (_here(messages, "key", "value", "headers") > KEPT_BYTES)
    left_out[large] = _here(messages, "value")[large]
    messages["value"][large] = None
    rest = chosen & (left_out >= 0) & (_here(messages, "key", "headers") > KEPT_BYTES)
    for name, also in (("headers", rest), ("key", rest & (_here(messages, "key") > KEPT_BYTES))):
        left_out[also] += _here(messages, name)[also]
        messages[name][also] = None


def _here(rows: Rows, *names: str) -> Column:
    total = np.zeros(rows.count, dtype=np.int64)
    for name in names:
        total += np.fromiter((len(content or b"") for content in rows[name]), np.int64, rows.count)
    return total
