"""What ``cb.audit`` has, for people."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.topic_reading import own_topic, records_to_end
from checkback.operations.rejected import RejectedRecord
from checkback.wire.audit import AuditKind, AuditRecord
from checkback.wire.protocol import Source, Topics


class AuditLine(NamedTuple):
    """A record, and when Kafka took it."""

    time_ms: int
    record: AuditRecord


def audit_lines(consumer: KafkaConsumer, topics: Topics, since_ms: int = 0) -> Iterator[AuditLine]:
    """All that was written since then, in its order; what is no such record is passed over.

    Raises:
        ConfigurationError: there is no such topic, or this user may not read it.
    """
    for record in records_to_end(consumer, own_topic(consumer, topics.audit), since_ms=since_ms):
        try:
            found = AuditRecord.parse(record.value)
        except ProtocolError:
            continue
        yield AuditLine(record.timestamp, found)


def not_taken(lines: Sequence[AuditLine], rejected: Iterable[RejectedRecord]) -> list[int]:
    """Of each line, of how many of its decisions the op lies in ``cb.rejected``: the job has not taken it.

    An operator's op counts for the last line before it that decides its half message with its key; where nobody has
    keys it may be another operator's.
    """
    deciding: dict[tuple[str, str], list[int]] = {}
    for number, (_, said) in enumerate(lines):
        for half in said.halves if said.kind is AuditKind.DECISION else ():
            deciding.setdefault((half, said.key), []).append(number)
    found: set[tuple[int, str]] = set()
    for one in rejected:
        numbers = deciding.get((one.half, one.key), []) if one.source == Source.OPERATOR else []
        before = bisect_right(numbers, one.time_ms, key=lambda number: lines[number].time_ms)
        if before:
            found.add((numbers[before - 1], one.half))
    counts = Counter(number for number, _ in found)
    return [counts[number] for number in range(len(lines))]
