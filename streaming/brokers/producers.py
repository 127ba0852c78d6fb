"""Transactional producers: their settings, and how each begins."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from checkback.exceptions import CheckbackError
from checkback.kafka.reaching import RECONNECT_MS
from checkback.operations.topics import MOST_BYTES

_OPERATION_SECONDS = 60.0


_METADATA_SECONDS = 30.0


_SETTLED_SECONDS = 5.0


BATCH_BYTES = 262_144


class StuckError(CheckbackError):
    """The last transaction under this transactional id is decided, but Kafka cannot write its markers."""


def warm_up(producer: Producer, topic: str, seconds: float = _METADATA_SECONDS) -> None:
    """Connect, before ``init_transactions``: that waits for half a second, often, where no connection is up.

    Twice for one topic that there is: the first answer comes from the address we were given, the second from a broker
    by its own name. Quicker than asking once about all topics of the cluster, and much so where there are many.
    """
    for _ in range(2):
        producer.list_topics(topic, timeout=seconds)


def init_transactions(producer: Producer, seconds: float = _OPERATION_SECONDS) -> None:
    """Fence, and wait until the transaction that was left is settled, but not for long.

    Raises:
        StuckError: it is decided, and not settled within some seconds.
        KafkaException: what else may be.
    """
    try:
        producer.init_transactions(_SETTLED_SECONDS)
    except KafkaException as error:
        if error_code(error) == KafkaError.CONCURRENT_TRANSACTIONS:
            raise StuckError(error.args[0].str()) from None  # the exception would keep the producer
        if not error.args[0].retriable():
            raise
        producer.init_transactions(seconds)


def producer_settings(transactional_id: str, timeout_ms: int) -> dict[str, Any]:
    """Settings of the sink's librdkafka producers."""
    return {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        # the first try falls before the socket is up: without this the next one waits 100 ms
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        "partitioner": "murmur2_random",  # Java's default, which librdkafka's own is not
        "linger.ms": 20,
        # librdkafka's default is below Kafka's own; what a topic takes is for the broker to say
        "message.max.bytes": MOST_BYTES,
        "batch.size": BATCH_BYTES,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 131_072,
    }


def error_code(error: KafkaException) -> int:
    """The KafkaError's code."""
    return int(error.args[0].code())
