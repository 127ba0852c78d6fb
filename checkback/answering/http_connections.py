"""Connections of our own HTTP servers: strict framing, and a bound on the work that one of them can cause."""

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, h11  # type: ignore[attr-defined]  # its own, without an export

_SMALL_CHUNKS = 500
_CHUNK_BYTES = 128
"""Of further chunks on average. A read of 256 KiB has 43,000 chunks of one byte, and parsing them took 2 s."""


class _StrictLines(h11._receivebuffer.ReceiveBuffer):  # noqa: SLF001  (h11 exports no way to be strict)
    """Takes no LF without CR as the end of a line, which a proxy may read in another way."""

    def maybe_extract_lines(self) -> Any:
        size = len(self)
        lines = super().maybe_extract_lines()
        if lines is not None and size - len(self) != sum(map(len, lines)) + 2 * len(lines) + 2:
            raise h11.RemoteProtocolError("A line ends without CR.")
        return lines


class _Framing(h11.Connection):
    """Counts the chunks of a body."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = _StrictLines()

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._left = _SMALL_CHUNKS
            if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
                raise h11.RemoteProtocolError("A body has either Content-Length or Transfer-Encoding.")
        elif isinstance(event, h11.Data):
            self._left += len(event.data) // _CHUNK_BYTES - 1
            if self._left < 0:
                raise h11.RemoteProtocolError("The chunks of the body are too small.")
        return event


class BoundedConnection(H11Protocol):
    """Ends when a client sends a body in many tiny chunks."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = _Framing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or end the connection if an answer has begun."""
        if self.cycle is not None and (self.cycle.response_started or self.cycle.response_complete):
            self.transport.abort()
        else:
            super().send_400_response(msg)
