"""Strict HTTP/1 framing for our own servers: what a proxy may read in another way is refused."""

import re
from typing import Any

from uvicorn.protocols.http.h11_impl import h11  # type: ignore[attr-defined]  # its own, without an export

_HEAD_BYTES = 16 * 1024
_HEAD_LINES = 200
"""Of a head that comes in one read, which h11 does not bound: parsing one of 15,000 lines took 80 ms."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}\r\n")
_SMALL_CHUNKS = 500
_CHUNK_BYTES = 128
"""Of further chunks on average. A read of 256 KiB has 43,000 chunks of one byte, and parsing them took 2 s."""


class _StrictLines(h11._receivebuffer.ReceiveBuffer):  # noqa: SLF001  (h11 exports no way to be strict)
    """Refuses what a proxy may read in another way: an LF without CR, a line that continues another, two lengths."""

    def maybe_extract_lines(self) -> Any:
        size = len(self)
        lines = super().maybe_extract_lines()
        if lines is not None and size - len(self) != sum(map(len, lines)) + 2 * len(lines) + 2:
            raise h11.RemoteProtocolError("A line ends without CR.")
        if size - len(self) > _HEAD_BYTES or len(lines or ()) > _HEAD_LINES:
            raise h11.RemoteProtocolError("The head of the request is too large.")
        lengths = [line for line in lines or () if line.lower().startswith(b"content-length")]
        if len(lengths) > 1 or any(b"," in line for line in lengths):
            raise h11.RemoteProtocolError("A body has one Content-Length.")
        if any(line.startswith((b" ", b"\t")) for line in lines or ()):
            raise h11.RemoteProtocolError("A line continues the one before.")
        return lines

    def maybe_extract_next_line(self) -> Any:
        line = super().maybe_extract_next_line()
        if line is not None and not _CHUNK_SIZE.fullmatch(line):
            raise h11.RemoteProtocolError("The line before a chunk is not its size alone.")
        return line


class Framing(h11.Connection):
    """Counts the chunks of a body."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = _StrictLines()

    @property
    def behind(self) -> int:
        """Bytes that came behind a request which is not answered yet."""
        answering = self.their_state in {h11.DONE, h11.MIGHT_SWITCH_PROTOCOL}  # type: ignore[attr-defined]  # not exported
        return len(self._receive_buffer) if answering else 0

    def begins_with(self, lines: tuple[bytes, ...]) -> bool:
        """Whether the next request begins with one of these."""
        return self.their_state is h11.IDLE and self._receive_buffer._data.startswith(lines)  # noqa: SLF001  (a copy costs)

    def next_event(self) -> Any:
        """See :class:`h11.Connection`."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._left = _SMALL_CHUNKS
            if event.http_version not in {b"1.0", b"1.1"}:
                raise h11.RemoteProtocolError("The version is neither HTTP/1.0 nor HTTP/1.1.")
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                raise h11.RemoteProtocolError("A body has either Content-Length or Transfer-Encoding.")
        elif isinstance(event, h11.Data):
            self._left += len(event.data) // _CHUNK_BYTES - 1
            if self._left < 0:
                raise h11.RemoteProtocolError("The chunks of the body are too small.")
        return event
