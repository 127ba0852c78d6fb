"""The offsets of a consumer group, read with care."""

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

_CALL_SECONDS = 5.0


def committed(consumer: Consumer, places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """What the consumer's group has committed for each place, in their order; an offset below 0 where nothing is.

    Raises:
        KafkaException: Kafka did not say, of all places or of one.
    """
    found = consumer.committed(list(places), timeout=_CALL_SECONDS)
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
    return list(found)
