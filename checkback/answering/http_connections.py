"""Connections of our own HTTP servers, with a bound on the work that one of them can cause."""

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, h11  # type: ignore[attr-defined]  # its own, without an export

_SMALL_CHUNKS = 500
_CHUNK_BYTES = 128
"""Of further chunks on average. A read of 256 KiB has 43,000 chunks of one byte, and parsing them took 2 s."""


class _Framing(h11.Connection):
    """Counts the chunks of a body."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._left = _SMALL_CHUNKS
        elif isinstance(event, h11.Data):
            self._left += len(event.data) // _CHUNK_BYTES - 1
            if self._left < 0:
                raise h11.RemoteProtocolError("The chunks of the body are too small.")
        return event


class BoundedConnection(H11Protocol):
    """Ends when a client sends a body in many tiny chunks."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = _Framing(h11.SERVER)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or end the connection if an answer has begun."""
        if self.cycle is not None and (self.cycle.response_started or self.cycle.response_complete):
            self.transport.abort()
        else:
            super().send_400_response(msg)
