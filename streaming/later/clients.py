"""Kafka clients of the forwarder: what it reads from ``cb.later``, and the transactions that move it."""

import contextlib
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import NamedTuple, Protocol, Self

from checkback.exceptions import JobFailedError
from checkback.kafka.bounded_calls import within
from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.asked_bounds import asked_bounds
from checkback.kafka.librdkafka.errors import is_truncation, result_of
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.headers import headers_of
from checkback.kafka.librdkafka.library import (
    AdminClient,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    OffsetSpec,
    TopicPartition,
)
from checkback.kafka.librdkafka.topics import TopicDescription, described
from checkback.kafka.librdkafka.transactional import SpentEpochError
from checkback.wire import protocol
from checkback.wire.sent_back import due_after_pause
from streaming.batch.headers import Headers
from streaming.batch.record import Record
from streaming.brokers.client import ANSWER_BYTES, SinkSettings, producer_settings
from streaming.brokers.directory import Brokers, Described, TopicDirectory
from streaming.brokers.retrying import retrying, retrying_until
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.kafka_sink.transaction import KafkaTransaction
from streaming.later.offsets import UNKNOWN_EPOCH, Reached, StoredOffset, begin_at, to_store, truncated

TRANSACTION_MS = 10_000
_LEAST_BYTES = 4 << 20
"""With so many, what is in hand is moved before more is read."""
_WAIT_SECONDS = 0.1
_CALL_SECONDS = 10.0
_MISSING_SECONDS = 30.0
_LEADER_SECONDS = 5.0


Place = tuple[str, int, int]
"""A record's: the topic's id, partition and offset."""


class ChangedError(Exception):
    """``cb.later`` was made again, or one of the topics has other partitions: what was read before may be another's."""


class Memory(Protocol):
    """The checkpoint, as far as the forwarder needs it."""

    def remembers_later(self, topic_id: str) -> bool:
        """Whether :meth:`remember_later` was ever called with this id."""

    def remember_later(self, topic_id: str) -> None:
        """All partitions of ``cb.later`` have an offset from now on."""


class Retry(NamedTuple):
    """A record of ``cb.later``."""

    partition: int
    offset: int
    epoch: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    """None: they cannot be had."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """With the headers that it is to have in ``cb.half``."""
        epoch, headers = message.leader_epoch(), headers_of(message)
        place = (message.partition() or 0, message.offset() or 0, UNKNOWN_EPOCH if epoch is None else epoch)
        due = headers if headers is None else due_after_pause(headers, message.timestamp()[1])
        return cls(*place, message.key(), message.value(), due)


class LaterClients:
    """A consumer, and transactions that fence those of the forwarder before."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._name = settings.topics.later
        reading = {
            "group.id": self._name,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 200,
            "receive.message.max.bytes": ANSWER_BYTES,
        }
        self._consumer = make_client(Consumer, settings.client(**reading))
        self._admin = make_client(AdminClient, settings.client())
        self._brokers = Brokers(settings.client())
        self._directory = TopicDirectory(self._brokers)
        self._transaction = self._new_transaction()
        self._topics: dict[str, TopicDescription] = {}
        self._reached: dict[int, Reached] = {}
        self._ends: dict[int, int] = {}
        """Where partitions ended when they were last read to their end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            within(_CALL_SECONDS, self._consumer.close)
        self.__dict__.clear()  # the frames of an error may keep this object, not its clients

    @property
    def half_partitions(self) -> int:
        """Partitions of ``cb.half``."""
        return self._topics[self._settings.topics.half].partitions

    def place(self, record: Retry) -> Place:
        """Where it lies, whatever becomes of the topic."""
        return self._topics[self._name].id, record.partition, record.offset

    def begin(self, memory: Memory) -> None:
        """Fence; only then is what was stored the last word. Read on from there.

        Raises:
            JobStoppedError: nobody knows where that is.
        """
        self._transaction.open()
        self._topics = self._described()
        topic = self._topics[self._name]
        places = [TopicPartition(self._name, number) for number in range(topic.partitions)]
        self._consumer.list_topics(self._name, timeout=_CALL_SECONDS)  # else it may not know a new one for a minute
        bounds = self._bounds(places)
        found = retrying(_CALL_SECONDS)(committed, self._consumer, places)
        stored = [StoredOffset.of(one) for one in found]
        remembered = memory.remembers_later(topic.id)
        self._reached = begin_at(self._name, topic, stored, bounds, remembered=remembered)
        self.renew_offsets()
        if not remembered:
            memory.remember_later(topic.id)
        begun = self._reached.items()
        self._consumer.assign([TopicPartition(self._name, at, one.offset, "", one.epoch) for at, one in begun])

    def renew_offsets(self) -> None:
        """Store all of them again: Kafka forgets each that was not stored for a while."""
        for number, end in self._ends.items():
            self._reached[number] = self._reached[number]._replace(end=end)
        self._transact((), self._reached)

    def read(self, most: int) -> list[Retry]:
        """Some records, at most so many; waits a moment for them.

        Raises:
            SpentEpochError: the last transaction was written, and its producer may begin no other one.
        """
        if self._transaction.kafka.spent:
            raise SpentEpochError(f"A connection to Kafka failed while {self._name} was being moved.")
        self._transaction.kafka.take_log()
        found: list[Retry] = []
        size = 0
        until = monotonic() + _WAIT_SECONDS
        while len(found) < most and size < _LEAST_BYTES:
            # one by one: how large is what ``consume`` gives at once, nobody knows
            message = self._consumer.poll(max(0.0, until - monotonic()))
            if message is None:
                break
            error = message.error()
            if error is None:
                found.append(Retry.of(message))
                size += len(message.value() or b"") + len(message.key() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition() or 0] = message.offset() or 0
            elif is_truncation(error):
                raise truncated(self._name, message.partition() or 0)
            else:
                raise KafkaException(error)
        return found

    def write(self, records: Sequence[Retry], moved: Sequence[Record]) -> None:
        """Write ``moved``, and that these were, in one transaction.

        Raises:
            TopicsRefusedError: topics do not take them; nothing was written.
            TransactionTimeoutError, KafkaException: something else; likewise, or Kafka did not say.
        """
        reached = {record.partition: Reached(record.offset + 1, record.epoch) for record in records}
        self._transact(moved, reached)
        self._reached.update(reached)

    def takes(self, topic: str) -> bool:
        """Whether there is a topic, all of whose partitions have leaders; waits some seconds for one that changes.

        Without the leader Kafka cannot end a transaction of that partition, nor begin the next one.
        """
        ask = retrying_until(lambda found: None not in found.replicas.values(), _LEADER_SECONDS)
        found: Described = ask(self._brokers.describe, topic)
        return bool(found.replicas) and None not in found.replicas.values()

    def look(self) -> None:
        """Raises ChangedError where the topics are others than they were.

        Of one that was made again librdkafka may hear nothing: it asks with the leader's epoch of the one before.
        """
        if self._described() != self._topics:
            raise ChangedError

    def _transact(self, records: Sequence[Record], reached: Mapping[int, Reached]) -> None:
        self.look()
        offsets = to_store(self._name, self._topics[self._name], reached)
        membership = self._consumer.consumer_group_metadata()
        transaction = self._transaction
        transaction.begin(KnownLimits())
        try:
            transaction.produce(records)
            transaction.commit(offsets, membership)
        except KafkaException as error:
            raise transaction.failed(error.args[0], offsets, membership) from error

    def _bounds(self, places: Sequence[TopicPartition]) -> list[Bounds]:
        """With the log's end, which --to-latest stores; the reader's own is before a transaction that is open."""
        firsts = [asked_bounds(self._consumer, place, _CALL_SECONDS).first for place in places]
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # as it is
        asked = self._admin.list_offsets(dict.fromkeys(places, latest), request_timeout=_CALL_SECONDS)
        ends = {place.partition: int(result_of(answer).offset) for place, answer in asked.items()}
        return [Bounds(first, ends[place.partition]) for first, place in zip(firsts, places, strict=True)]

    def _new_transaction(self) -> KafkaTransaction:
        topics = self._settings.topics
        writing = producer_settings(transactional_id(topics), TRANSACTION_MS) | {"linger.ms": 0}
        client = self._settings.client(**writing)
        return KafkaTransaction(client, TRANSACTION_MS, self._directory, topics.progress, series=True)

    def _described(self) -> dict[str, TopicDescription]:
        """The topics as they are now; waits for one that is being made again, or that a broker does not know yet."""
        wanted = (self._name, self._settings.topics.half)
        ask = retrying_until(lambda found: len(found) == len(wanted), _MISSING_SECONDS)
        found: dict[str, TopicDescription] = ask(described, self._admin, wanted)
        for name in wanted:
            if name not in found:
                raise JobFailedError(f"Kafka has no topic {name} any more.")
        return found


def transactional_id(topics: protocol.Topics) -> str:
    """Of all its transactions: those of one forwarder fence those of the one before."""
    return f"checkback-later:{topics.prefix}"
