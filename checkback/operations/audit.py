"""What ``cb.audit`` has, for people."""

from collections.abc import Iterator
from typing import NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.topic_reading import own_topic, records_to_end
from checkback.wire.audit import AuditRecord
from checkback.wire.protocol import Topics


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
