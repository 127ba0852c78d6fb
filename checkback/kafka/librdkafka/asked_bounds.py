"""Where a partition begins and ends, asked of a leader that may just be changing."""

from collections.abc import Collection
from time import monotonic, sleep

from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.errors import error_code
from checkback.kafka.librdkafka.library import Consumer, KafkaError, KafkaException, TopicPartition

_PAUSE_SECONDS = 0.1
_LEAST_SECONDS = 0.5
_MOVES = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})


def asked_bounds(
    consumer: Consumer, place: TopicPartition, seconds: float, passing: Collection[int] = _MOVES
) -> Bounds:
    """Ask, and ask again where the answer is one of ``passing``: by default, that another broker leads it, or none yet.

    librdkafka hands these out for a topic that was made a moment ago, and for each partition of a broker that ends.

    Raises:
        KafkaException: that was the answer for ``seconds``, or another error was, or there was none.
    """
    until = monotonic() + seconds
    while True:
        try:
            found = consumer.get_watermark_offsets(place, max(_LEAST_SECONDS, until - monotonic()))
        except KafkaException as error:
            if error_code(error) not in passing or monotonic() >= until:
                raise
            sleep(_PAUSE_SECONDS)
        else:
            if found is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer to where {place} ends"))
            return Bounds(*found)
