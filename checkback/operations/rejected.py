"""Rejected records, for operators: what lies in ``cb.rejected``, and why."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.kafka.topic_reading import own_topic, records_to_end
from checkback.wire import protocol
from checkback.wire.protocol import Topics


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
