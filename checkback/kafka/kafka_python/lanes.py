"""A lane on kafka-python."""

import contextlib
import random
from collections.abc import Sequence
from time import monotonic
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndMetadata

from checkback.kafka.bounded_calls import within
from checkback.kafka.client_options import of_reaching
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import OF_THE_RECORD
from checkback.kafka.kafka_python.refused import is_refusal
from checkback.kafka.kafka_python.repairs import (
    CoordinatorClient,
    close_producer,
    name_refusing_topics,
    refusing_topic,
)
from checkback.kafka.lanes import DELIVER_SECONDS, LaneLostError, LanePlace, LaneRecord, LaneRefusedError, patiently
from checkback.kafka.reaching import CONNECT_MS, no_kafka
from checkback.wire.lanes import TRANSACTION_TIMEOUT_MS
from checkback.wire.ledger import OFFSET, PARTITION, Ledger
from checkback.wire.limits import MOST_RECORD_BYTES

_MAY_WRITE = frozenset({2, 4})  # Kafka's numbers of ALL and WRITE
"""Part of what it says, in an error of no kind, where it may not store the ledger."""
_ASKING_VERSIONS = 8, 10
"""Those that say what the client may do with a topic."""
_REFUSED = (*OF_THE_RECORD, TopicAuthorizationFailedError, UnknownTopicOrPartitionError, ValueError)
"""``ValueError``: the topic has no such partition."""
_NONE = frozenset({TopicAuthorizationFailedError.errno, UnknownTopicOrPartitionError.errno})

_REFUSED_SECONDS = 1.0
_METADATA_MS = 1_500
"""A topic that was deleted is looked for so long, and the transaction has to end within Kafka's time all the same."""


class KafkaPythonLane:
    """See :class:`~checkback.kafka.lanes.LaneWriter`."""

    def __init__(self, place: LanePlace) -> None:
        self._place = place
        self._producer: Any = None

    def open(self) -> None:
        """See :class:`~checkback.kafka.lanes.LaneWriter`."""
        patiently(self._open)

    def _open(self) -> None:
        settings = {
            "bootstrap_servers": self._place.bootstrap_servers,
            "transactional_id": self._place.transactional_id,
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            "retry_backoff_ms": 2,  # a transaction begins while the last one's markers are being written
            "max_request_size": MOST_RECORD_BYTES,
            "max_block_ms": TRANSACTION_TIMEOUT_MS,
            "delivery_timeout_ms": TRANSACTION_TIMEOUT_MS,
            "request_timeout_ms": TRANSACTION_TIMEOUT_MS // 2,
            "acks": "all",
            "linger_ms": 0,
            "metrics_enabled": False,
        }
        producer = self._producer = make_client(KafkaProducer, settings, of_reaching(self._place.options), SHARED)
        name_refusing_topics(producer)
        try:
            within(CONNECT_MS / 1000, producer.init_transactions)
            producer.begin_transaction()
            within(DELIVER_SECONDS, lambda: self._commit(producer, Ledger()))
            producer.config["max_block_ms"] = _METADATA_MS
        except (KafkaError, OSError) as error:  # TimeoutError is one
            self.close()
            if is_refusal(error):
                raise self._place.not_allowed(error) from error
            raise no_kafka(self._place.bootstrap_servers, repr(error)) from error

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """See :class:`~checkback.kafka.lanes.LaneWriter`."""
        lowest, highest = _ASKING_VERSIONS
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            min_version=lowest,
            max_version=highest,
        )
        settings = {"bootstrap_servers": self._place.bootstrap_servers}
        try:
            with contextlib.closing(
                make_client(CoordinatorClient, settings, of_reaching(self._place.options), SHARED)
            ) as client:
                answer = client.asked_of_any(request)
        except (KafkaError, OSError):
            return {}
        return {topic.name: _partitions(topic) for topic in answer.topics if topic.error_code in {0, *_NONE}}

    def deliver(self, records: Sequence[LaneRecord], ledger: Ledger) -> None:
        """See :class:`~checkback.kafka.lanes.LaneWriter`."""
        producer = self._producer
        failed: dict[int, Exception] = {}
        futures: list[Any] = []
        try:
            producer.begin_transaction()
            _send(producer, records, futures, failed)
            if not failed:
                within(2 * DELIVER_SECONDS, lambda: self._send_ledger(producer, ledger))
            _hear(futures, failed)
            if not failed:
                within(2 * DELIVER_SECONDS, producer.commit_transaction)
                return
        except (KafkaError, OSError, AssertionError) as error:
            # a record that was refused while others or the ledger were sent says so only there
            _hear(futures, failed, _REFUSED_SECONDS)
            self._give_up(records, failed, error)
            return
        self._give_up(records, failed, next(iter(failed.values())))

    def close(self) -> None:
        """See :class:`~checkback.kafka.lanes.LaneWriter`."""
        if self._producer is not None:
            close_producer(self._producer, 0)

    def _commit(self, producer: KafkaProducer, ledger: Ledger) -> None:
        """These calls know no time limit."""
        self._send_ledger(producer, ledger)
        producer.commit_transaction()

    def _send_ledger(self, producer: KafkaProducer, ledger: Ledger) -> None:
        place = TopicPartition(self._place.topics.progress, PARTITION)
        stored = OffsetAndMetadata(OFFSET, ledger.metadata, -1)
        producer.send_offsets_to_transaction({place: stored}, self._place.transactional_id)

    def _give_up(self, records: Sequence[LaneRecord], failed: dict[int, Exception], error: Exception) -> None:
        """Abort, and hear that it has succeeded, where a record was refused.

        Raises:
            LaneRefusedError: that is so.
            LaneLostError: otherwise.
        """
        refused = frozenset(number for number, one in failed.items() if _is_refusal(one, records[number]))
        # what is still under way when the transaction is aborted might be in the next one
        under_way = isinstance(error, OSError) or any(isinstance(one, KafkaTimeoutError) for one in failed.values())
        if refused and not under_way:
            try:
                within(2 * DELIVER_SECONDS, self._producer.abort_transaction)
            except (KafkaError, OSError, AssertionError) as worse:
                raise LaneLostError(f"{error!r}, then {worse!r}") from worse
            raise LaneRefusedError(refused, repr(failed[min(refused)]))
        raise LaneLostError("Kafka did not answer in time" if isinstance(error, TimeoutError) else repr(error))


def _send(
    producer: KafkaProducer, records: Sequence[LaneRecord], futures: list[Any], failed: dict[int, Exception]
) -> None:
    """Those before one that cannot be sent are in ``futures`` when that raises, too: one of them may be the reason."""
    anywhere: dict[str, int] = {}
    for number, (topic, partition, key, value, headers) in enumerate(records):
        try:
            if partition is None and key is None:  # one for all: each partition that takes part makes it longer
                if topic not in anywhere:
                    anywhere[topic] = random.choice(list(producer.partitions_for(topic)))  # noqa: S311  (spreads load, hides nothing)
                partition = anywhere[topic]  # noqa: PLW2901  (it is this record's)
            futures.append(producer.send(topic, value, key, headers=list(headers), partition=partition))
        except _REFUSED as error:  # it cannot be written at all
            failed[number] = error
            return
        except KafkaTimeoutError as error:  # nothing but the topic's partitions is waited for
            failed[number] = UnknownTopicOrPartitionError(f"{topic}: {error}")
            return


def _hear(futures: Sequence[Any], failed: dict[int, Exception], seconds: float = DELIVER_SECONDS) -> None:
    """What became of each; for ``seconds`` together."""
    until = monotonic() + seconds
    for number, future in enumerate(futures):
        try:
            future.get(timeout=max(0.0, until - monotonic()))
        except KafkaError as error:
            failed.setdefault(number, error)


def _is_refusal(error: Exception, record: LaneRecord) -> bool:
    return isinstance(error, _REFUSED) and refusing_topic(error) in {None, record.topic}


def _partitions(topic: Any) -> int:
    if topic.error_code:
        return 0
    allowed = topic.authorized_operations
    return len(topic.partitions) if not allowed or not _MAY_WRITE.isdisjoint(allowed) else 0
