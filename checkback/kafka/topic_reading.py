"""Reads a topic from its beginning, to where it ends now or for as long as one likes, with kafka-python."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from checkback.exceptions import ConfigurationError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import TopicAuthorizationFailedError
from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.kafka_python.repairs import is_hidden
from checkback.wire.rights import not_allowed, read

_POLL_MS = 200

Ends = Mapping[TopicPartition, int]


def reading_consumer(
    bootstrap_servers: str, isolation_level: str = "read_committed", options: Mapping[str, Any] | None = None
) -> KafkaConsumer:
    """A consumer without a group, for :func:`records_to_end` and :func:`records_as_they_come`.

    ``options`` are further ones of kafka-python's consumer, and override ours.

    Raises:
        ConfigurationError: one of the options is wrong, or ours to set.
        KafkaUnreachableError: no Kafka answers.
    """
    settings: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": isolation_level,
    }
    return make_client(KafkaConsumer, settings, options, SHARED)


def partitions_of(consumer: KafkaConsumer, topic: str) -> list[int]:
    """The topic's partitions; none where it is not there.

    Raises:
        NotAllowedError: this user may not see it, which kafka-python does not tell from *not there*.
    """
    found = sorted(consumer.partitions_for_topic(topic) or ())
    if not found and is_hidden(consumer, topic):
        raise not_allowed("this client", TopicAuthorizationFailedError(topic), [read(topic, "")])
    return found


def records_to_end(
    consumer: KafkaConsumer,
    topic: str,
    ends_of: Callable[[list[TopicPartition]], Ends] | None = None,
    since_ms: int = 0,
) -> Iterator[Any]:
    """All records that the consumer may see now, in the order of each partition; none where the topic is not there.

    ``ends_of`` gives the offsets to read to, by partition; without it they are those of the moment of the call.
    ``since_ms``: only what Kafka has from that time on, in ms since 1970.
    """
    partitions = [TopicPartition(topic, number) for number in partitions_of(consumer, topic)]
    consumer.assign(partitions)
    if not partitions:
        return
    consumer.seek_to_beginning(*partitions)
    ends = (ends_of or consumer.end_offsets)(partitions)
    if since_ms:
        for partition, found in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
            consumer.seek(partition, ends[partition] if found is None else found.offset)
    # an offset may be passed without a record: Kafka's own are not given
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for records in poll(consumer, _POLL_MS).values():
            yield from records


def records_between(consumer: KafkaConsumer, partition: TopicPartition, start: int, stop: int) -> Iterator[Any]:
    """The records of a partition from one offset to before another, which the consumer may see already."""
    consumer.assign([partition])
    consumer.seek(partition, start)
    # an offset may be passed without a record: Kafka's own are not given
    while consumer.position(partition) < stop:
        for records in poll(consumer, _POLL_MS).values():
            yield from (record for record in records if record.offset < stop)


def records_as_they_come(
    consumer: KafkaConsumer,
    topics: str | Sequence[str],
    stopped: Callable[[], bool],
    *,
    new: bool = False,
    idle_ms: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Any]:
    """All records of topics, then those that come, until ``stopped`` or until none has come for ``idle_ms``.

    ``new``: only those that come from now on. ``idle`` is called again and again while none comes. Partitions that are
    added later are not read.
    """
    names = [topics] if isinstance(topics, str) else topics
    partitions = [TopicPartition(name, number) for name in names for number in partitions_of(consumer, name)]
    consumer.assign(partitions)
    if new:
        # now, and not when the first record is waited for
        for partition, end in consumer.end_offsets(partitions).items():
            consumer.seek(partition, end)
    else:
        consumer.seek_to_beginning(*partitions)
    last = monotonic()
    while not stopped() and (idle_ms is None or monotonic() - last < idle_ms / 1000):
        polled = poll(consumer, _POLL_MS)
        if not polled:
            idle()
        for records in polled.values():
            yield from records
            last = monotonic()


def ends_of(consumer: KafkaConsumer, topic: str, timeout_ms: int | None = None) -> dict[int, int]:
    """Where its partitions end now; empty where the topic is not there.

    Raises:
        KafkaError: Kafka does not say so within ``timeout_ms``.
    """
    partitions = [TopicPartition(topic, number) for number in partitions_of(consumer, topic)]
    ends = consumer.end_offsets(partitions, timeout_ms=timeout_ms) if partitions else {}
    return {partition.partition: end for partition, end in ends.items()}


def own_topic(consumer: KafkaConsumer, topic: str) -> str:
    """The topic, one of Checkback's own.

    Raises:
        ConfigurationError: Kafka does not have it, or does not show it to this user.
    """
    if not partitions_of(consumer, topic):
        raise ConfigurationError(f"Kafka has no topic {topic}: run 'checkback topics create' first.")
    return topic
