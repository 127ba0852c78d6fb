"""Records as no client writes them, and as anybody can over the wire."""

import socket
import struct
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

from crc32c import crc32c

from tests.place import wait_until

NOT_UTF_8 = b"\xff\xfe"
Record = tuple[bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""Key, value and headers, whose names are bytes."""


class Name(str):
    """A header's name that kafka-python encodes as these bytes."""

    __slots__ = ("_bytes",)
    _bytes: bytes

    def __new__(cls, given: bytes) -> Self:
        made = super().__new__(cls, "x")
        made._bytes = given
        return made

    def encode(self, *_: Any, **__: Any) -> bytes:
        return self._bytes


_NOT_YET = (3, 5, 6)
"""Of a topic that has just been made: unknown, without a leader, or its leader does not know yet."""


def write_by_hand(
    address: tuple[str, int], topic: str, partition: int, *records: Record, time_ms: int | None = None
) -> None:
    """One batch to the broker that leads the partition; raises when that does not take it.

    ``time_ms``: that all records are to have; None: now. Old ones are soon deleted by retention.
    """
    batch = _batch(records, time.time_ns() // 1_000_000 if time_ms is None else time_ms)
    name = struct.pack(">h", len(topic)) + topic.encode()
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    request = struct.pack(">hhih", 0, 3, 1, 2) + b"me" + body
    error = _NOT_YET[0]

    def taken() -> bool:
        nonlocal error
        with socket.create_connection(address) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb").read(4 + 4 + 4 + len(name) + 4 + 4 + 2)
        (error,) = struct.unpack(">h", answer[-2:])
        return error not in _NOT_YET

    wait_until(taken, "a broker that leads the partition")
    assert error == 0, f"the broker refuses it, by error {error}"


def _batch(records: Sequence[Record], time_ms: int) -> bytes:
    """Of no producer, not compressed; all records have the same time."""
    count = len(records)
    content = b"".join(_sized(_record(number, *record)) for number, record in enumerate(records))
    checked = struct.pack(">hiqqqhii", 0, count - 1, time_ms, time_ms, -1, -1, -1, count) + content
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def _record(
    number: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]]
) -> bytes:
    packed = b"".join(_header(*header) for header in headers)
    return b"\0\0" + _varint(number) + _sized(key) + _sized(value) + _varint(len(headers)) + packed


@lru_cache
def _header(name: bytes, content: bytes | None) -> bytes:
    return _sized(name) + _sized(content)


def _sized(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    left = number << 1 if number >= 0 else -2 * number - 1
    written = bytearray()
    while left >> 7:
        written.append(left & 127 | 128)
        left >>= 7
    return bytes((*written, left))
