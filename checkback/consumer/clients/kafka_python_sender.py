"""A consumer's transactions on kafka-python."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from checkback.consumer.clients.base import (
    SEND_MS,
    Connection,
    FencedError,
    KafkaAwayError,
    RecordRefusedError,
    anywhere,
    in_commits,
)
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import SentBack
from checkback.exceptions import NotAllowedError
from checkback.kafka.bounded_calls import within
from checkback.kafka.client_options import of_reaching
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import FENCED, OF_THE_RECORD
from checkback.kafka.kafka_python.library import (
    AuthorizationError,
    KafkaError,
    KafkaProducer,
    OffsetAndMetadata,
    Serializer,
)
from checkback.kafka.kafka_python.library import (
    TopicPartition as KafkaTopicPartition,
)
from checkback.kafka.kafka_python.repairs import close_producer
from checkback.wire.beside_offsets import END
from checkback.wire.limits import MOST_RECORD_BYTES

_COMMIT_SECONDS = 2 * SEND_MS / 1000


class KafkaPythonSender:
    """See :class:`~checkback.consumer.clients.base.Sender`."""

    spent = False

    def __init__(self, connection: Connection, transactional_id: str) -> None:
        settings = {
            "retry_backoff_ms": 10,  # a transaction begins while the last one's markers are being written
            "max_request_size": MOST_RECORD_BYTES,
            "max_block_ms": SEND_MS,
            "metrics_enabled": False,
            "bootstrap_servers": connection.bootstrap_servers,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": SEND_MS,
            "delivery_timeout_ms": SEND_MS,
            "request_timeout_ms": SEND_MS // 2,
            "acks": "all",
            "linger_ms": 0,
            "value_serializer": _Nulls(),
        }
        self._producer = make_client(KafkaProducer, settings, of_reaching(connection.options), SHARED)
        try:
            within(_COMMIT_SECONDS, self._producer.init_transactions)
        except (KafkaError, TimeoutError):
            self.close()
            raise

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        """See :class:`~checkback.consumer.clients.base.Sender`."""
        try:
            self._producer.begin_transaction()
            self._write(records, one_by_one=one_by_one)
            within(_COMMIT_SECONDS, lambda: self._commit(offsets, membership))
        except FENCED as error:
            raise FencedError(repr(error)) from error
        except AuthorizationError as error:
            raise NotAllowedError(repr(error)) from error
        except (
            KafkaError,
            OSError,  # TimeoutError is one
            ValueError,
            AssertionError,
        ) as error:  # also of a partition it does not know
            raise KafkaAwayError(repr(error)) from error

    def close(self) -> None:
        """See :class:`~checkback.consumer.clients.base.Sender`."""
        close_producer(self._producer, 0)

    def _commit(self, offsets: Mapping[TopicPartition, Stored], membership: object) -> None:
        """These calls know no time limit."""
        for piece in in_commits(offsets):
            self._producer.send_offsets_to_transaction(to_kafka(piece), membership)
        self._producer.commit_transaction()

    def _write(self, records: Sequence[SentBack], *, one_by_one: bool) -> None:
        partitions = {topic: self._any_partition(topic) for topic in anywhere(records)}
        futures: list[Any] = []
        for number, (topic, key, value, headers, given) in enumerate(records):
            partition = partitions[topic] if given is None else given
            try:
                filled = [(name, content or b"") for name, content in headers]  # it writes no header without a value
                data = _NULL if value is None else value
                future = self._producer.send(topic, data, key, headers=filled, partition=partition)
            except (*OF_THE_RECORD, TypeError, UnicodeError) as error:  # it cannot be written at all
                raise RecordRefusedError(number, str(error)) from error
            except KafkaError:
                for earlier, one in enumerate(futures):  # what was refused before: after that the client takes no more
                    _acknowledged(earlier, one)
                raise
            futures.append(future)
            if one_by_one:
                _acknowledged(number, future)
        for number, future in enumerate(futures):
            _acknowledged(number, future)

    def _any_partition(self, topic: str) -> int:
        """One for all records of a transaction: each that takes part makes it longer."""
        return int(random.choice(list(self._producer.partitions_for(topic))))  # noqa: S311  (spreads load, hides nothing)


class _Null(bytes):
    """Stands for null where ``send`` refuses it, though Kafka does not: the value of a record without a key."""


_NULL = _Null()


class _Nulls(Serializer):  # type: ignore[misc]  # kafka-python has no types
    """Puts null in its place, once ``send`` has looked."""

    def serialize(self, topic: str, headers: Any, data: bytes | None) -> bytes | None:  # noqa: ARG002  (kafka-python's)
        """Called by the producer."""
        return None if data is _NULL else data


def to_kafka(offsets: Mapping[TopicPartition, Stored]) -> dict[KafkaTopicPartition, OffsetAndMetadata]:
    """Offsets as kafka-python has them."""
    return {
        KafkaTopicPartition(*one): OffsetAndMetadata(offset, metadata and metadata + END, -1)
        for one, (offset, metadata) in offsets.items()
    }


def _acknowledged(number: int, future: Any) -> None:
    try:
        future.get(timeout=SEND_MS / 1000)
    except OF_THE_RECORD as error:
        raise RecordRefusedError(number, str(error)) from error
