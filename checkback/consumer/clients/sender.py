"""A consumer's transactions."""

import random
from collections.abc import Mapping, Sequence
from functools import partial

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
from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka.errors import FENCED, METADATA_REFUSED, NOT_ALLOWED, OF_THE_RECORD, error_code
from checkback.kafka.librdkafka.library import KafkaError, KafkaException, Message
from checkback.kafka.librdkafka.library import TopicPartition as KafkaTopicPartition
from checkback.kafka.librdkafka.transactional import StuckError, Transactional, transactional_settings
from checkback.kafka.reaching import longest_pause_ms
from checkback.wire.groups import metadata_refused

_SEND_SECONDS = SEND_MS / 1000


class Sender:
    """A transactional producer.

    After any error it is closed, and another one made with the same name: librdkafka's, used again after a refusal, has
    lost count of its records, and its next transaction fails.
    """

    def __init__(self, connection: Connection, transactional_id: str) -> None:
        self._reports = _Reports()
        self._partitions: dict[str, list[int]] = {}
        self._kafka = Transactional(
            {
                "log_level": 2,
                # a transaction begins while the last one's markers are being written, and is told to try again
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 50,
                **transactional_settings(transactional_id, SEND_MS),
                "reconnect.backoff.max.ms": longest_pause_ms(connection.options, "reconnect.backoff.ms"),
                **of_reaching(connection.options),
                "bootstrap.servers": connection.bootstrap_servers,
                "linger.ms": 0,
            },
            series=True,
        )
        self._kafka.connect(seconds=_SEND_SECONDS)
        try:
            self._kafka.fence(_SEND_SECONDS)
        except StuckError as error:
            raise KafkaAwayError(str(error)) from error

    @property
    def spent(self) -> bool:
        """Whether it takes nothing more, though its last transaction has ended: see ``SpentEpochError``."""
        return self._kafka.spent

    def take_log(self) -> None:
        """See ``Transactional.take_log``."""
        self._kafka.take_log()

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Write records, and store the group's offsets, in one transaction.

        Args:
            records: to be written.
            offsets: of the group; without any, ``membership`` is not used.
            membership: what :meth:`GroupClient.membership` gives.
            one_by_one: each in a batch of its own, which may be too large where each of its records would not be.

        Raises:
            RecordRefusedError: Kafka does not take one of them, or, if not ``one_by_one``, one that came with it.
                Nothing was written.
            FencedError: another of its name has begun.
            KafkaAwayError: something else. Whether it was written is known once another has been made.
        """
        self._reports = _Reports()
        try:
            self._kafka.begin()
            self._write(records, one_by_one=one_by_one)
            for piece in in_commits(offsets):
                self._kafka.add_offsets(to_kafka(piece), membership, _SEND_SECONDS)
            self._kafka.commit(_SEND_SECONDS)
        except (KafkaException, BufferError, KeyError) as error:
            if isinstance(error, KafkaException) and error_code(error) in NOT_ALLOWED:
                raise NotAllowedError(repr(error)) from error
            if isinstance(error, KafkaException) and error_code(error) in METADATA_REFUSED:
                raise metadata_refused("the consumer", error) from error
            fenced = isinstance(error, KafkaException) and error_code(error) in FENCED
            raise (FencedError if fenced else KafkaAwayError)(str(error)) from error

    def close(self) -> None:
        """End."""
        self._kafka.purge(0)

    def _write(self, records: Sequence[SentBack], *, one_by_one: bool) -> None:
        partitions = {topic: self._any_partition(topic) for topic in anywhere(records)}
        for number, (topic, key, value, headers, given) in enumerate(records):
            partition = partitions[topic] if given is None else given
            try:
                self._kafka.producer.produce(
                    *(topic, value, key, partition, partial(self._reports.heard, number)),
                    headers=list(headers),
                )
            except KafkaException as error:
                self._reports.heard(number, error.args[0], None)
            except UnicodeEncodeError as error:
                raise RecordRefusedError(number, f"a header's name cannot be written: {error}") from error
            if one_by_one:
                self._acknowledged(number + 1)
        self._acknowledged(len(records))

    def _acknowledged(self, count: int) -> None:
        """Wait until Kafka has the first ``count`` records: a commit does not tell of one that was never taken."""
        self._kafka.flush(_SEND_SECONDS)
        self._reports.all_taken(count)

    def _any_partition(self, topic: str) -> int:
        """One for all records of a transaction: each that takes part makes it longer."""
        if topic not in self._partitions:
            known = self._kafka.producer.list_topics(topic, timeout=_SEND_SECONDS).topics[topic]
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
            if error.code() in OF_THE_RECORD:
                raise RecordRefusedError(number, error.str())
        for _, error in sorted(self._failed, key=lambda failed: failed[1].code() not in FENCED):
            raise KafkaException(error)
        if self._taken != count:
            raise KafkaAwayError(f"Kafka has taken {self._taken} of {count} records within {_SEND_SECONDS:.0f} s")


def to_kafka(offsets: Mapping[TopicPartition, Stored]) -> list[KafkaTopicPartition]:
    """Offsets as confluent-kafka has them."""
    return [
        KafkaTopicPartition(one.topic, one.partition, stored.offset, stored.metadata) for one, stored in offsets.items()
    ]
