"""What lies in ``cb.rejected``, and why, and what ``cb.audit`` has: for people."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.topic_reading import own_topic, records_to_end
from checkback.wire import protocol
from checkback.wire.audit import AuditKind, AuditRecord
from checkback.wire.protocol import Source, Topics


class RejectedRecord(NamedTuple):
    """A half message or an op that the job has not taken."""

    reason: str
    came_from: str
    """``topic:partition:offset`` where it lies, until its topic's retention takes it."""
    transaction_id: str
    """As the record says; empty where it does not. Bytes that are not UTF-8 are shown as U+FFFD."""
    group: str
    topic: str
    """The real topic, of a half message."""
    action: str
    """Of an op."""
    time_ms: int
    """When it was rejected, in ms since 1970."""
    half: str = ""
    """The half message that an op is on."""
    source: str = ""
    """Whom an op says that it is of."""
    key: str = ""
    """Id of the key that it says it is signed with."""


def rejected_records(consumer: KafkaConsumer, topics: Topics, since_ms: int = 0) -> Iterator[RejectedRecord]:
    """All that ``cb.rejected`` has now, of what was written there since then, in its order.

    Raises:
        ConfigurationError: there is no such topic.
    """
    for record in records_to_end(consumer, own_topic(consumer, topics.rejected), since_ms=since_ms):
        yield rejected_record(record)


def rejected_record(record: Any) -> RejectedRecord:
    """What a record of ``cb.rejected`` holds."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in reversed(record.headers)}
    names = (protocol.REASON, protocol.FROM, protocol.ID, protocol.GROUP, protocol.TOPIC, protocol.ACTION)
    reason, came_from, transaction_id, group, topic, action = (headers.get(name, "") for name in names)
    half, source, signature = (headers.get(name, "") for name in (protocol.HALF, protocol.SOURCE, protocol.SIGNATURE))
    return RejectedRecord(
        *(reason, came_from, transaction_id, group, topic, action, record.timestamp),
        *(half, source, signature.partition(" ")[0]),
    )


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
