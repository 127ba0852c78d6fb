"""How large what Checkback takes may be: real sizes, whatever a producer's client has compressed them to."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from checkback.exceptions import ProtocolError
from checkback.wire.protocol import Message

Headers = Sequence[tuple[str, bytes | None]]

MAX_KEY_BYTES = 1 << 20
MAX_VALUE_BYTES = 16 << 20
MAX_HEADERS = 1_000
"""Of one record, ours among them."""
MAX_HEADER_BYTES = 1 << 20
"""Of the names and values of all headers of one record together."""
MAX_OP_HEADER_BYTES = 16 << 10
"""Likewise of an op, which waits in the job's memory when it comes before its half message."""
JUDGED_BYTES = 300
"""Of the value of a ``cb-`` header: a longer one that Checkback knows is wrong. Of a half message whose headers are set
aside the job sees no more, so it cannot verify a signature that covers a longer one."""
MAX_REMARK_BYTES = 4 << 10
"""Of an op's value and of its key, each: so much of it is kept, the op counts all the same."""
HELD_SPARE = 3
"""A half message that the job writes again has headers of its own besides, and those of a transaction of several
messages beside the one message's: it may have so many times as many."""

MOST_RECORD_BYTES = 100_000_000
"""Of a record that the job, or a consumer, writes to topics that take any size; Kafka's own limit of a request
(``socket.request.max.bytes``) is a little higher."""
MAX_UNFOLDED_BYTES = 16 << 20
"""Of what becomes of a half message of several messages: each with the half's headers beside its own."""
MESSAGE_BYTES = 100
"""So much is counted for each of several messages besides."""

TOGETHER = "its messages are larger than 16 MiB together, the half's headers counted with each"


def too_large(value: bytes | None, key: bytes | None, headers: Headers) -> str:
    """What exceeds the limits of one message, empty when nothing does."""
    sizes = (
        ("value", len(value or b""), MAX_VALUE_BYTES, "bytes"),
        ("key", len(key or b""), MAX_KEY_BYTES, "bytes"),
        ("headers", header_bytes(headers), MAX_HEADER_BYTES, "bytes"),
        ("headers", len(headers), MAX_HEADERS, "headers"),
    )
    for name, size, most, unit in sizes:
        if size > most:
            return f"{name}: {size:,} {unit}, at most {most:,} are taken"
    return ""


def several_too_large(messages: Sequence[Message], common: Headers) -> str:
    """What exceeds the limits of several messages that have ``common`` headers, empty when nothing does."""
    for message in messages:
        wrong = too_large(message.value, message.key, message.headers)
        if wrong:
            return f"a message's {wrong}"
    each = header_bytes(common) + MESSAGE_BYTES
    own = sum(content_bytes(one.key, one.value, one.headers) for one in messages)
    return TOGETHER if own + each * len(messages) > MAX_UNFOLDED_BYTES else ""


def header_bytes(headers: Headers) -> int:
    """Bytes of all names and values."""
    return sum(len(name.encode()) + len(content or b"") for name, content in headers)


def content_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes of a message."""
    return len(key or b"") + len(value or b"") + header_bytes(headers)


class FairShares:
    """What the requests of a server hold, such as bytes. A client may hold as many as it leaves free for others.

    ``busy`` makes the error for a client that would hold more.
    """

    def __init__(self, most: int, busy: Callable[[], Exception]) -> None:
        self._free = most
        self._busy = busy
        self._held = Counter[str]()
        self._lock = threading.Lock()

    @contextmanager
    def of(self, client: str) -> Iterator[Callable[[int], None]]:
        """What to call before each part of a request is kept; the end of the block frees them all."""
        held = 0

        def take(size: int) -> None:
            nonlocal held
            with self._lock:
                if self._held[client] + size > self._free - size:
                    raise self._busy()
                held += size
                self._held[client] += size
                self._free -= size

        try:
            yield take
        finally:
            with self._lock:
                self._held[client] -= held
                self._free += held
                if not self._held[client]:
                    del self._held[client]


def refuse_too_large(value: bytes | None, key: bytes | None, headers: Headers) -> None:
    """Before a half message is written: the job would reject it.

    Raises:
        ProtocolError: value, key or headers exceed the limits.
    """
    _refuse(too_large(value, key, headers))


def refuse_several_too_large(messages: Sequence[Message]) -> None:
    """Likewise of several messages in one half message."""
    _refuse(several_too_large(messages, ()))


def _refuse(wrong: str) -> None:
    if wrong:
        raise ProtocolError(
            f"The message is too large ({wrong}). Nothing was written: keep what is large elsewhere, and send where "
            "it is."
        )
