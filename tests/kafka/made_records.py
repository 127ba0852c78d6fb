"""Records as kafka-python gives them, made without Kafka."""

from typing import Any, NamedTuple

from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, half_headers, op_headers

TOPICS = Topics()
HALF = HalfPosition(3, 4711)


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, Any], ...] = ()


def half(time_ms: int = 1_000, *more: tuple[str, bytes], value: bytes = b"value", at: HalfPosition = HALF) -> Record:
    headers = (*half_headers("tx", "shop", "orders"), *more)
    return Record(TOPICS.half, *at, time_ms, b"k", value, headers)


def op(
    time_ms: int,
    action: Action,
    source: Source = Source.PRODUCER,
    offset: int = 7,
    value: bytes = b"",
    at: HalfPosition = HALF,
    names: tuple[str, str] = ("tx", "shop"),
) -> Record:
    return Record(TOPICS.op, at.partition, offset, time_ms, None, value, tuple(op_headers(*names, at, action, source)))


def parked(time_ms: int, *more: tuple[str, bytes], at: HalfPosition = HALF) -> Record:
    ours = ((protocol.ID, b"tx"), (protocol.GROUP, b"shop"), (protocol.TOPIC, b"orders"))
    more = ((protocol.HALF, str(at).encode()), *more)
    return Record(TOPICS.parked, 0, 1, time_ms, b"k", b"value", (*ours, *more))


def refused(time_ms: int, came_from: str, reason: str, *more: tuple[str, bytes]) -> Record:
    ours = ((protocol.REASON, reason.encode()), (protocol.FROM, came_from.encode()))
    return Record(TOPICS.rejected, 0, 2, time_ms, None, b"", (*ours, *more))
