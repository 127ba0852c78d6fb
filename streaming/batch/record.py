"""A Kafka record as the sink writes it, and its size."""

from typing import NamedTuple

from streaming.batch.headers import Headers

RANDOM_OR_KEYED = -1
"""Partition: the partitioner's choice."""


EMPTY_BATCH_BYTES = 61
"""What comes before the first record of a batch (Kafka's record batch, magic 2)."""


class Record(NamedTuple):
    """What the sink writes."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def batch_bytes(record: Record) -> int:
    """Bytes of an uncompressed batch that holds this record alone: what ``max.message.bytes`` is compared with."""
    content = 3 + _part(record.key) + _part(record.value) + _varint(len(record.headers))
    for name, value in record.headers:
        content += _part(name.encode()) + _part(value)
    return EMPTY_BATCH_BYTES + _varint(content) + content


def _part(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    # zigzag: a bit is lost to the sign
    return max(1, -(-(number.bit_length() + 1) // 7))


RecordKey = tuple[str, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def record_key(record: Record) -> RecordKey:
    """A record's content: what is the same is refused or taken alike."""
    return (*record[:4], tuple(record.headers))
