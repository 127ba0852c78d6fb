"""Reads a topic from its beginning, to where it ends now or for as long as one likes, with kafka-python."""

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from checkback.polling import poll
from checkback.reaching import CONNECT_MS, no_kafka

_POLL_MS = 200

Ends = Mapping[TopicPartition, int]


def reading_consumer(
    bootstrap_servers: str, isolation_level: str = "read_committed", options: Mapping[str, Any] | None = None
) -> KafkaConsumer:
    """A consumer without a group, for :func:`records_to_end` and :func:`records_as_they_come`.

    ``options`` are further ones of kafka-python's consumer, and override ours.

    Raises:
        KafkaUnreachableError: no Kafka answers.
    """
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "bootstrap_timeout_ms": CONNECT_MS,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": isolation_level,
        **(options or {}),
    }
    try:
        return KafkaConsumer(**settings)
    except KafkaError as error:
        raise no_kafka(bootstrap_servers, error) from error


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
        for records in poll(consumer, _POLL_MS).values():
            yield from records


def records_as_they_come(
    consumer: KafkaConsumer,
    topic: str,
    stopped: Callable[[], bool],
    *,
    new: bool = False,
    idle_ms: int | None = None,
) -> Iterator[Any]:
    """All records of a topic, then those that come, until ``stopped`` or until none has come for ``idle_ms``.

    ``new``: only those that come from now on. Partitions that are added later are not read.
    """
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(partitions)
    (consumer.seek_to_end if new else consumer.seek_to_beginning)(*partitions)
    last = monotonic()
    while not stopped() and (idle_ms is None or monotonic() - last < idle_ms / 1000):
        for records in poll(consumer, _POLL_MS).values():
            yield from records
            last = monotonic()
