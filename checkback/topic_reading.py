"""Reads a topic from its beginning to where it ends now, with kafka-python."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

_POLL_MS = 200

Ends = Mapping[TopicPartition, int]


def reading_consumer(bootstrap_servers: str, isolation_level: str = "read_committed", **options: Any) -> KafkaConsumer:
    """A consumer without a group, for :func:`records_to_end`."""
    return KafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation_level,
        **options,
    )


def records_to_end(
    consumer: KafkaConsumer, topic: str, ends_of: Callable[[list[TopicPartition]], Ends] | None = None
) -> Iterator[Any]:
    """All records that the consumer may see now, in the order of each partition; none where the topic is not there.

    ``ends_of`` gives the offsets to read to, by partition; without it they are those of the moment of the call.
    """
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(partitions)
    if not partitions:
        return
    consumer.seek_to_beginning(*partitions)
    ends = (ends_of or consumer.end_offsets)(partitions)
    # an offset may be passed without a record: Kafka's own are not given
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for records in consumer.poll(timeout_ms=_POLL_MS).values():
            yield from records
