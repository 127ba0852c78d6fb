"""The headers of a record that confluent-kafka has read. Anybody may have written them."""

from operator import methodcaller
from typing import Any, Protocol

_UNREADABLE: list[tuple[str, bytes | None]] = []
_headers = methodcaller("headers")
"""Not a call in our code: CPython's own looks whether one of C has left an exception. A call site that has run a few
times is made faster, looks no more, and the exception comes up wherever the next one is looked for."""


class _Message(Protocol):
    def headers(self) -> Any: ...
    def set_headers(self, value: Any, /) -> Any: ...


def headers_of(message: _Message) -> list[tuple[str, bytes | None]] | None:
    """A record's headers; None when they cannot be had, since a name is not UTF-8.

    The one way to read them. Of such a name ``message.headers()`` (2.16) raises ``SystemError``, or nothing, and an
    exception comes up some lines later; the list that it gives has a hole in it, which crashes the process.

    librdkafka says nothing of two things: it gives no headers at all of a record that has more than 100,000, and ends a
    name at its first zero byte.
    """
    try:
        found = _headers(message)
    except (SystemError, UnicodeDecodeError):
        message.set_headers(_UNREADABLE)
        return None
    return None if found is _UNREADABLE else list(found or ())
