"""Where a partition begins and ends, asked of a leader that may just be changing."""

from collections.abc import Collection
from time import monotonic, sleep

from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.errors import GONE, NO_TOPIC, NOT_ALLOWED, error_code
from checkback.kafka.librdkafka.library import Consumer, KafkaError, KafkaException, TopicPartition

_PAUSE_SECONDS = 0.1
_LEAST_SECONDS = 0.5
_MOVES = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})


def asked_bounds(
    consumer: Consumer, place: TopicPartition, seconds: float, passing: Collection[int] = _MOVES
) -> Bounds:
    """Ask, and ask again if the answer is one of ``passing``: by default, another broker leads it, or none yet.

    librdkafka returns these for a topic that was created a moment ago, and for each partition of a broker that stops.
    It also returns one of ``GONE`` while a broker stops or starts: only if Kafka's metadata lacks the partition is it
    an answer, because a reader that took it for one would begin at offset 0 again.

    Args:
        consumer: any consumer; it need not be assigned the partition.
        place: topic and partition.
        seconds: how long to ask.
        passing: error codes after which to ask again.

    Raises:
        KafkaException: an error of ``GONE`` if Kafka has no such partition; ``_TIMED_OUT`` if there was no answer
            within ``seconds``; any other error.
    """
    until = monotonic() + seconds
    while True:
        left = max(_LEAST_SECONDS, until - monotonic())
        try:
            offsets = consumer.get_watermark_offsets(place, left)
        except KafkaException as error:
            code = error_code(error)
            if code not in passing and not (code in GONE and _exists(consumer, place, until)):
                raise
            if monotonic() >= until:
                if code in GONE:
                    raise _no_answer(place) from error
                raise
            sleep(_PAUSE_SECONDS)
        else:
            if offsets is None:
                raise _no_answer(place)
            return Bounds(*offsets)


def _exists(consumer: Consumer, place: TopicPartition, until: float) -> bool:
    """Return whether Kafka's metadata has the partition. Asking by name also renews what librdkafka knows of it."""
    topic = consumer.list_topics(place.topic, max(_LEAST_SECONDS, until - monotonic())).topics[place.topic]
    if topic.error is None:
        return place.partition in topic.partitions
    if topic.error.code() in NOT_ALLOWED:
        raise KafkaException(topic.error)
    return topic.error.code() not in NO_TOPIC


def _no_answer(place: TopicPartition) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer to where {place} ends"))
