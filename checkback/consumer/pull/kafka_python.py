"""Pulling with kafka-python."""

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from checkback.consumer.clients.kafka_python import received
from checkback.consumer.listener import TopicPartition
from checkback.consumer.pull.client import ASK_SECONDS, LogRead
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.bounds import Bounds
from checkback.kafka.kafka_python import make_client
from checkback.kafka.kafka_python.library import (
    KafkaConsumer,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from checkback.kafka.kafka_python.library import (
    TopicPartition as KafkaTopicPartition,
)
from checkback.kafka.kafka_python.polling import poll
from checkback.wire.rights import not_allowed, read

_POLL_SECONDS = 0.1
_FIRST_ASK_SECONDS = 1.0
_FIXED: Mapping[str, tuple[object, ...]] = {
    "auto_offset_reset": ("none",),
    "enable_auto_commit": (False,),
    "isolation_level": ("read_committed",),
    **dict.fromkeys(("key_deserializer", "value_deserializer"), (None,)),
    **dict.fromkeys(("bootstrap_servers", "group_id"), ()),
}
"""What is promised of it: ``read_committed``, no stored offset, its own servers, bytes."""


class KafkaPythonPull:
    """See :class:`~checkback.consumer.pull.client.PullClient`.

    All partitions that were ever asked for stay assigned, and all but the one that is read are paused: what was fetched
    of them is kept until it is their turn again.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any]) -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # a fetch of the partition read before is waited for when it is another's turn
            "fetch_max_wait_ms": 100,
            "metrics_enabled": False,
        }
        self._consumer = make_client(KafkaConsumer, settings, options, _FIXED, whose="a pull consumer")
        self._reading: KafkaTopicPartition | None = None

    def partitions(self, topic: str) -> Sequence[int]:
        """See :class:`~checkback.consumer.pull.client.PullClient`."""
        try:
            return sorted(self._consumer.partitions_for_topic(topic))
        except KafkaError as error:
            raise _unanswered(error) from error

    def bounds(self, partition: TopicPartition) -> Bounds | None:
        """See :class:`~checkback.consumer.pull.client.PullClient`."""
        at = KafkaTopicPartition(*partition)
        if partition.partition not in self.partitions(partition.topic) and not self._is_there(partition):
            return None
        for seconds in (_FIRST_ASK_SECONDS, ASK_SECONDS):
            try:
                minimum = self._consumer.beginning_offsets([at], timeout_ms=int(seconds * 1000))[at]
                maximum = self._consumer.end_offsets([at], timeout_ms=int(seconds * 1000))[at]
            except KafkaTimeoutError as error:
                # what it knows of topics may be old; of one that is gone it asks in vain for as long as it may
                if not self._is_there(partition):
                    return None
                if seconds == ASK_SECONDS:
                    raise _unanswered(error) from error
            except KafkaError as error:
                raise _unanswered(error) from error
            else:
                return Bounds(minimum, max(minimum, maximum))
        return None

    def read(self, partition: TopicPartition, offset: int, most: int, seconds: float) -> LogRead:
        """See :class:`~checkback.consumer.pull.client.PullClient`."""
        at = KafkaTopicPartition(*partition)
        self._turn_to(at, offset)
        until = monotonic() + seconds
        while True:
            try:
                wait = max(0.0, min(_POLL_SECONDS, until - monotonic()))
                found = poll(self._consumer, int(wait * 1000), most).get(at, [])
            except OffsetOutOfRangeError:
                return LogRead((), offset, gone=True)
            except TopicAuthorizationFailedError as error:
                raise not_allowed("this client", error, [read(partition.topic, "")]) from error
            except KafkaError as error:
                if not error.retriable:
                    raise
                found = []
            reached: int = self._consumer.position(at)
            if found or reached > offset or monotonic() >= until:
                return LogRead([received(record) for record in found], reached)

    def close(self) -> None:
        """See :class:`~checkback.consumer.pull.client.PullClient`."""
        self._consumer.close()

    def _is_there(self, partition: TopicPartition) -> bool:
        try:
            self._consumer.topics()  # asks Kafka each time
        except UnknownTopicOrPartitionError as error:
            # the answer to what it was asking already: of topics that it read once, and one of them is gone
            return partition.topic not in error.args and self._is_there(partition)
        except KafkaError as error:
            raise _unanswered(error) from error
        return partition.partition in self.partitions(partition.topic)

    def _turn_to(self, at: KafkaTopicPartition, offset: int) -> None:
        assigned = self._consumer.assignment()
        if at not in assigned:
            self._consumer.assign([*assigned, at])
            self._consumer.seek(at, offset)  # before anything asks where it is: there is no such offset
        elif self._consumer.position(at) != offset:
            self._consumer.seek(at, offset)
        if at != self._reading:
            self._consumer.pause(*(self._consumer.assignment() - {at}))
            self._consumer.resume(at)
            self._reading = at


def _unanswered(error: KafkaError) -> KafkaUnreachableError:
    return KafkaUnreachableError(f"Kafka does not answer: {error}.")
