"""Which content of half messages is carried along, and which lies in the half topic alone.

A message's content is its key, value and headers. Whoever writes a message whose content was set aside reads it again,
by partition and offset (``streaming/content.py``). So a segment's state is bounded by its number of messages.
"""

import numpy as np

from state.rows import Column, Rows

SHUFFLED_BYTES = 16 * 1024
"""A half message with more content comes without it already."""
KEPT_BYTES = 4 * 1024
"""A message with more content is kept without it. Key and headers stay where they are no more than this by themselves:
checks are of little use without them."""
UNREADABLE = "\ufffd"
"""In a header's name: it was no UTF-8, and whoever reads the record again cannot read its headers. Larger ones than may
be shuffled are refused when they are decoded."""


def content_bytes(messages: Rows) -> Column:
    """int64[n]: bytes of key, value and headers, wherever they are."""
    return np.where(messages["left_out"] >= 0, messages["left_out"], _here(messages, "key", "value", "headers"))


def value_bytes(messages: Rows) -> Column:
    """int64[n]: bytes of the value, wherever it is; where key and headers were set aside, too, with those."""
    left_out = messages["left_out"]
    return np.where(
        left_out >= 0, np.maximum(left_out - _here(messages, "key", "headers"), 0), _here(messages, "value")
    )


def set_aside(messages: Rows, chosen: Column) -> None:
    """Let go of the content of those messages of a mask that are too large to be kept with it, in place."""
    chosen = chosen & (messages["left_out"] < 0)
    if not chosen.any():
        return
    sizes = _here(messages, "key", "value", "headers")
    large = chosen & (sizes > KEPT_BYTES)
    messages["left_out"][large] = sizes[large]
    messages["value"][large] = None
    rest = large & (_here(messages, "key", "headers") > KEPT_BYTES)
    rest[rest] = [UNREADABLE not in (headers or "") for headers in messages["headers"][rest]]
    for name in ("key", "headers"):
        messages[name][rest] = None


def _here(messages: Rows, *names: str) -> Column:
    total = np.zeros(messages.count, dtype=np.int64)
    for name in names:
        total += np.fromiter((len(content or b"") for content in messages[name]), np.int64, messages.count)
    return total
