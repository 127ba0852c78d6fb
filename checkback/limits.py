"""How large what Checkback takes may be: real sizes, whatever a producer's client has compressed them to."""

from checkback.exceptions import ProtocolError
from checkback.protocol import Headers

MAX_KEY_BYTES = 1 << 20
MAX_VALUE_BYTES = 16 << 20
MAX_HEADERS = 1_000
"""Of one record, ours among them."""
MAX_HEADER_BYTES = 1 << 20
"""Of the names and values of all headers of one record together."""
MAX_OP_HEADER_BYTES = 16 << 10
"""Likewise of an op, which waits in the job's memory when it comes before its half message."""
MAX_REMARK_BYTES = 4 << 10
"""Of an op's value and of its key, each: so much of it is kept, the op counts all the same."""
HELD_SPARE = 3
"""A half message that the job writes again has headers of its own besides, and those of a transaction of several
messages beside the one message's: it may have so many times as many."""


def refuse_too_large(value: bytes | None, key: bytes | None, headers: Headers) -> None:
    """Before a half message is written: the job would reject it.

    Raises:
        ProtocolError: value, key or headers exceed the limits.
    """
    header_bytes = sum(len(name.encode()) + len(content) for name, content in headers)
    sizes = (
        ("value", len(value or b""), MAX_VALUE_BYTES, "bytes"),
        ("key", len(key or b""), MAX_KEY_BYTES, "bytes"),
        ("headers", header_bytes, MAX_HEADER_BYTES, "bytes"),
        ("headers", len(headers), MAX_HEADERS, "headers"),
    )
    for name, size, most, unit in sizes:
        if size > most:
            raise ProtocolError(
                f"The message's {name}: {size:,} {unit}, at most {most:,} are taken. Nothing was written: keep what is "
                "large elsewhere, and send where it is."
            )
