"""A consumer's transactions on confluent-kafka."""

import contextlib
import random
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from checkback.consumer.clients.base import (
    SEND_MS,
    Connection,
    FencedError,
    KafkaAwayError,
    RefusedError,
    anywhere,
    in_commits,
)
from checkback.consumer.listener import Place
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import SentBack
from checkback.kafka.bounded_calls import within
from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka import make_client
from checkback.kafka.reaching import longest_pause_ms
from checkback.wire.limits import MOST_RECORD_BYTES

_REFUSALS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD})
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_SEND_SECONDS = SEND_MS / 1000
OFFSETS_SECONDS = _SEND_SECONDS + 1
"""Longest wait until a transaction has the group's offsets: librdkafka's own, and no more."""


class ConfluentSender:
    """See :class:`~checkback.consumer.clients.Sender`."""

    def __init__(self, connection: Connection, transactional_id: str) -> None:
        self._reports = _Reports()
        self._partitions: dict[str, list[int]] = {}
        self._producer = make_client(
            Producer,
            {
                "log_level": 2,
                # a transaction begins while the last one's markers are being written, and is told to try again
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": longest_pause_ms(connection.options, "reconnect.backoff.ms"),
                **of_reaching(connection.options),
                "bootstrap.servers": connection.bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": SEND_MS,
                "message.timeout.ms": SEND_MS,
                "message.max.bytes": MOST_RECORD_BYTES,
                "linger.ms": 0,
            },
        )
        # init_transactions often waits for half a second where no connection is up
        self._producer.list_topics(timeout=_SEND_SECONDS)
        self._producer.init_transactions(_SEND_SECONDS)

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[Place, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        """See :class:`~checkback.consumer.clients.Sender`."""
        self._reports = _Reports()
        try:
            self._producer.begin_transaction()
            self._write(records, one_by_one=one_by_one)
            if offsets:
                self._add(offsets, membership)
            self._producer.commit_transaction(_SEND_SECONDS)
        except (KafkaException, BufferError, KeyError, SystemError) as error:
            # SystemError: after a fatal error confluent-kafka calls our callback with that error already raised
            cause = error.__cause__ if isinstance(error, SystemError) else error
            fenced = isinstance(cause, KafkaException) and cause.args[0].code() in _FENCED
            raise (FencedError if fenced else KafkaAwayError)(str(cause or error)) from error

    def close(self) -> None:
        """See :class:`~checkback.consumer.clients.Sender`."""
        with contextlib.suppress(KafkaException, SystemError):
            self._producer.purge()
            self._producer.flush(0)

    def _add(self, offsets: Mapping[Place, Stored], membership: object) -> None:
        """In a thread: with the group's coordinator away librdkafka forgets the time limit (its issues 5456, 5511)."""
        pieces, add = [to_kafka(piece) for piece in in_commits(offsets)], self._producer.send_offsets_to_transaction
        try:
            within(OFFSETS_SECONDS, lambda: [add(piece, membership, _SEND_SECONDS) for piece in pieces])
        except TimeoutError:
            said = f"the group's offsets were not taken within {OFFSETS_SECONDS:.0f} s"
            raise KafkaAwayError(said) from None

    def _write(self, records: Sequence[SentBack], *, one_by_one: bool) -> None:
        partitions = {topic: self._any_partition(topic) for topic in anywhere(records)}
        for number, (topic, key, value, headers, given) in enumerate(records):
            partition = partitions[topic] if given is None else given
            try:
                self._producer.produce(
                    *(topic, value, key, partition, partial(self._reports.heard, number)),
                    headers=list(headers),
                )
            except KafkaException as error:
                self._reports.heard(number, error.args[0], None)
            except UnicodeEncodeError as error:
                raise RefusedError(number, f"a header's name cannot be written: {error}") from error
            if one_by_one:
                self._acknowledged(number + 1)
        self._acknowledged(len(records))

    def _acknowledged(self, count: int) -> None:
        """Wait until Kafka has the first ``count`` records: a commit does not tell of one that was never taken."""
        self._producer.flush(_SEND_SECONDS)
        self._reports.all_taken(count)

    def _any_partition(self, topic: str) -> int:
        """One for all records of a transaction: each that takes part makes it longer."""
        if topic not in self._partitions:
            known = self._producer.list_topics(topic, timeout=_SEND_SECONDS).topics[topic]
            if known.error is not None:
                raise KafkaException(known.error)
            self._partitions[topic] = list(known.partitions)
        return random.choice(self._partitions[topic])  # noqa: S311  (spreads load, hides nothing)


class _Reports:
    """What became of a transaction's records: told by produce(), or by a delivery report."""

    def __init__(self) -> None:
        self._taken = 0
        self._failed: list[tuple[int, KafkaError]] = []

    def heard(self, number: int, error: KafkaError | None, _: Message | None) -> None:
        """Of one record."""
        if error is None:
            self._taken += 1
        else:
            self._failed.append((number, error))

    def all_taken(self, count: int) -> None:
        """Raises when not all of so many records were."""
        # after a refusal the client takes no more in this transaction, with other errors
        for number, error in self._failed:
            if error.code() in _REFUSALS:
                raise RefusedError(number, error.str())
        for _, error in sorted(self._failed, key=lambda failed: failed[1].code() not in _FENCED):
            raise KafkaException(error)
        if self._taken != count:
            raise KafkaAwayError(f"Kafka has taken {self._taken} of {count} records within {_SEND_SECONDS:.0f} s")


def to_kafka(offsets: Mapping[Place, Stored]) -> list[TopicPartition]:
    """Offsets as confluent-kafka has them."""
    return [
        TopicPartition(place.topic, place.partition, stored.offset, stored.metadata)
        for place, stored in offsets.items()
    ]
