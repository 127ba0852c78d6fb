"""Generations of a state partition's transactional id, and which one holds.

Kept apart from the progress offset, in a group of their own: who moves a partition on must not write over a progress
that somebody else commits at the same moment. Partition p of ``cb.progress`` has the group's offset g once generation g
holds; none is 0.
"""

import time
from typing import Any

from checkback.exceptions import JobFailedError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, TopicPartition
from streaming.brokers.retrying import retrying

GENERATIONS_TRIED = 3
"""A partition moves on by so many at most: those between could not be opened."""
_SECONDS = 60.0
_LOOK_SECONDS = 0.01


def generation_group(query_id: str) -> str:
    """The consumer group that holds a checkpoint's generations."""
    return f"checkback-{query_id}-generations"


class Generations:
    """Reads them; holds a connection.

    Not ``read_committed``: a generation that is about to hold need not be waited for (see
    :mod:`streaming.kafka_sink.beginning`), and a transaction that a killed task has left open must not be.
    """

    def __init__(self, client: dict[str, Any], query_id: str, topic: str) -> None:
        group = {"group.id": generation_group(query_id), "enable.auto.commit": False}
        self._consumer = make_client(Consumer, {**client, **group, "isolation.level": "read_uncommitted"})
        self._topic = topic

    def holding(self, partition: int) -> int:
        """The generation that holds.

        Raises:
            KafkaException: Kafka did not say.
        """
        (found,) = retrying(_SECONDS)(committed, self._consumer, [TopicPartition(self._topic, partition)])
        return max(0, found.offset)

    def wait_for(self, partition: int, generation: int) -> None:
        """Wait until everybody reads that this generation holds: Kafka answers a commit before its markers are written.

        Raises:
            JobFailedError: it does not come to hold.
        """
        deadline = time.monotonic() + _SECONDS
        while self.holding(partition) < generation:
            if time.monotonic() > deadline:
                raise JobFailedError(
                    "Kafka does not say which transactional id of a state partition holds: started again, the job goes "
                    "on where it was."
                )
            time.sleep(_LOOK_SECONDS)

    def mark(self, partition: int, generation: int) -> tuple[TopicPartition, Any]:
        """What a transaction commits to say that a generation holds: the offset, and the group's metadata."""
        return TopicPartition(self._topic, partition, generation), self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
