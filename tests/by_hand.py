"""Records as no client writes them, and as anybody can over the wire."""

import socket
import struct
from collections.abc import Sequence
from typing import Any, Self

from kafka.record.default_records import DefaultRecordBatchBuilder

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


def write_by_hand(address: tuple[str, int], topic: str, partition: int, *records: Record) -> None:
    """One batch to the broker that leads the partition; raises when that does not take it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 100_000_000)  # noqa: FBT003  (that is its signature)
    for number, (key, value, headers) in enumerate(records):
        builder.append(number, 1, key, value, [(Name(name), content) for name, content in headers])
    batch = bytes(builder.build())
    name = struct.pack(">h", len(topic)) + topic.encode()
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + name + struct.pack(">iii", 1, partition, len(batch)) + batch
    request = struct.pack(">hhih", 0, 3, 1, 2) + b"me" + body
    with socket.create_connection(address) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb").read(4 + 4 + 4 + len(name) + 4 + 4 + 2)
    (error,) = struct.unpack(">h", answer[-2:])
    assert error == 0, f"the broker refuses it, by error {error}"
