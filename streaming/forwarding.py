"""Moves half messages from ``cb.later`` to ``cb.half``, each once.

Consumers write there what they are to get again later, within a Kafka transaction that also stores their offsets. One
that dies in the midst of it holds back whoever reads committed behind it. On a topic of its own that is retries only;
on ``cb.half`` it would be everybody's transactions. Here each transaction is a moment long.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time_ns
from typing import NamedTuple, Protocol, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback import protocol
from checkback.confluent_headers import headers_of
from checkback.exceptions import (
    CheckbackError,
    JobFailedError,
    OwnTopicError,
    TransactionTimeoutError,
)
from checkback.lost_calls import within
from checkback.outages import Outage
from checkback.sent_back import dead_letter_of, due_after_pause
from streaming.brokers.client import ANSWER_BYTES, SinkSettings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.brokers.group_offsets import committed
from streaming.brokers.producers import StuckError, error_code, producer_settings
from streaming.brokers.retrying import retrying, retrying_until
from streaming.brokers.topics import TopicDescription, described
from streaming.headers import Headers
from streaming.heads import head_of
from streaming.kafka_sink.topic_limits import KnownLimits
from streaming.kafka_sink.transaction import FENCED, TOO_LARGE, KafkaTransaction, RefusedError
from streaming.later_offsets import UNKNOWN_EPOCH, Bounds, Reached, StoredOffset, begin_at, to_store, truncated
from streaming.record import RANDOM_OR_KEYED, Record

_LOGGER = logging.getLogger(__name__)
_AT_ONCE = 500
_LEAST_BYTES = 4 << 20
"""With so many, what is in hand is moved before more is read."""
_WAIT_SECONDS = 0.1
_TRANSACTION_MS = 10_000
_CALL_SECONDS = 10.0
_RENEWAL_SECONDS = 30.0
_AGAIN_SECONDS = 1.0
_MISSING_SECONDS = 30.0
_HEAD_BYTES = 128 << 10
"""Of a record that is written with its head only."""
_OF_THE_RECORD = TOO_LARGE | {KafkaError.INVALID_RECORD}
"""Refusals that are one record's fault; of all others its topic is to be put right."""
_NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class _ChangedError(Exception):
    """``cb.later`` was made again, or one of the topics has other partitions: what was read before may be another's."""


class Memory(Protocol):
    """The checkpoint, as far as the forwarder needs it."""

    def remembers_later(self, topic_id: str) -> bool:
        """Whether :meth:`remember_later` was ever called with this id."""

    def remember_later(self, topic_id: str) -> None:
        """All partitions of ``cb.later`` have an offset from now on."""


class _Retry(NamedTuple):
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
        epoch, headers = message.leader_epoch(), headers_of(message)
        place = (message.partition() or 0, message.offset() or 0, UNKNOWN_EPOCH if epoch is None else epoch)
        due = headers if headers is None else due_after_pause(headers, message.timestamp()[1])
        return cls(*place, message.key(), message.value(), due)


class Forwarder:
    """A thread that reads ``cb.later`` as the group ``<prefix>later``, until it is stopped.

    Kafka may go away and come back, and end a transaction that this machine has slept through. Another one on the same
    topics, of a job that has taken over, ends this one: ``refuse_another`` raises TakenOverError then.
    """

    def __init__(self, settings: SinkSettings, memory: Memory, refuse_another: Callable[[], None]) -> None:
        self._settings = settings
        self._memory = memory
        self._refuse_another = refuse_another
        self._stopping = threading.Event()
        self._failure: CheckbackError | None = None
        self._outage = Outage("moving cb.later", lambda: time_ns() // 1_000_000)
        self._thread = threading.Thread(target=self._run, name="checkback-later", daemon=True)
        self.moved = 0
        """Records so far."""

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Finish the transaction in hand. Harmless when it was never started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def raise_if_dead(self) -> None:
        """Raise what ended it, if anything did.

        Raises:
            TakenOverError: another job moves them now.
            JobStoppedError: going on would move some twice, or not at all.
            JobFailedError: Kafka does not allow it, or something else that does not pass by itself.
        """
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._refuse_another()
                with _Clients(self._settings) as clients:
                    self._move(clients)
            except _ChangedError:
                _LOGGER.warning("%s was made again, or has more partitions.", self._settings.topics.later)
            except (KafkaException, StuckError, TransactionTimeoutError) as error:
                self._failure = self._explained(error)
                if self._failure is not None:
                    return
                self._stopping.wait(self._pause(error))
            except CheckbackError as error:
                self._failure = error
                return
            except Exception as error:  # noqa: BLE001  (a thread that ends in silence leaves retries undelivered)
                self._failure = JobFailedError(f"Moving {self._settings.topics.later} failed: {error!r}.")
                self._failure.__cause__ = error
                return

    def _move(self, clients: "_Clients") -> None:
        clients.begin(self._memory)
        renewal_at = monotonic() + _RENEWAL_SECONDS
        while not self._stopping.is_set():
            records = clients.read()
            if records:
                self._write(clients, records)
                self.moved += len(records)
            self._outage.answered()
            if monotonic() >= renewal_at:
                clients.renew_offsets()
                renewal_at = monotonic() + _RENEWAL_SECONDS

    def _write(self, clients: "_Clients", records: Sequence[_Retry]) -> None:
        """In halves, down to single ones, where one is refused: too large together is not too large."""
        try:
            clients.write(records, [self._moved(clients, record, {}) for record in records])
        except RefusedError:
            clients.renew_producer()
            if len(records) == 1:
                self._write_refused(clients, records[0])
                return
            middle = len(records) // 2
            self._write(clients, records[:middle])
            self._write(clients, records[middle:])

    def _write_refused(self, clients: "_Clients", record: _Retry) -> None:
        """Where it is taken.

        Raises:
            OwnTopicError: no topic takes it, nor its head.
        """
        refused: dict[str, str] = {}
        while True:
            moved = self._moved(clients, record, refused)
            try:
                clients.write([record], [moved])
            except RefusedError as error:
                cause = error.topics.get(moved.topic, error.cause)
                if cause.code() not in _OF_THE_RECORD:
                    raise KafkaException(cause) from error
                if moved.topic == self._settings.topics.rejected and moved.topic in refused:
                    raise OwnTopicError(
                        f"A record of {self._settings.topics.later} can be put nowhere: {'; '.join(refused.values())}. "
                        "Correct those topics ('checkback topics create')."
                    ) from error
                refused[moved.topic] = f"{moved.topic} does not take it ({cause.str()})"
                clients.renew_producer()
            else:
                return

    def _moved(self, clients: "_Clients", record: _Retry, refused: Mapping[str, str]) -> Record:
        """To ``cb.half``; what that does not take, to the dead letters of the group that wanted it again.

        Else it is rejected: whole, or where ``cb.rejected`` has refused that, too, its head.
        """
        topics, headers = self._settings.topics, record.headers
        if headers and not refused:
            return Record(topics.half, record.partition % clients.half_partitions, record.key, record.value, headers)
        unread = "a header's name is not UTF-8" if headers is None else "it has no headers, or more than 100,000"
        why = "; ".join(refused.values()) or unread
        lies = f"{topics.later}:{record.partition}:{record.offset}"
        _LOGGER.error("The record at %s cannot be tried again later: %s", lies, why)
        headers = headers or []
        letter = dead_letter_of(headers, topics, why)
        if letter is not None and letter[0] not in refused and clients.has(letter[0]):
            return Record(letter[0], RANDOM_OR_KEYED, record.key, record.value, letter[1])
        said: Headers = [(protocol.REASON, why.encode()), (protocol.FROM, lies.encode())]
        rejected = Record(topics.rejected, RANDOM_OR_KEYED, record.key, record.value, [*said, *headers])
        return head_of(rejected, _HEAD_BYTES) if topics.rejected in refused else rejected

    def _explained(self, error: Exception) -> CheckbackError | None:
        """What ended it, or None for what may pass."""
        topics = self._settings.topics
        if isinstance(error, KafkaException) and error_code(error) in _NOT_ALLOWED:
            return JobFailedError(
                f"Kafka does not allow the job to move {topics.later} ({error}): grant it read on that topic and on "
                f"the group {topics.later}, write on {topics.half} and {topics.prefix}dlq.*, and the transactional id "
                f"{_transactional_id(topics)}."
            )
        return None

    def _pause(self, error: Exception) -> float:
        """Seconds until the next try. Fenced, the next one looks whether that was another job."""
        if isinstance(error, TransactionTimeoutError) or (
            isinstance(error, KafkaException) and error_code(error) in FENCED
        ):
            _LOGGER.warning(
                "Kafka has ended a transaction that moved %s, as it does when this machine stood still for %s s, or "
                "another job has taken over. If none has, it is made again, and nothing is lost.",
                *(self._settings.topics.later, _TRANSACTION_MS // 1000),
            )
            return _AGAIN_SECONDS
        return self._outage.failed(error)


class _Clients:
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
        self._consumer = Consumer(settings.client(**reading))
        self._admin = AdminClient(settings.client())
        self._directory = TopicDirectory(Brokers(settings.client()))
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

    @property
    def half_partitions(self) -> int:
        """Partitions of ``cb.half``."""
        return self._topics[self._settings.topics.half].partitions

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
        bounds = [Bounds(*self._consumer.get_watermark_offsets(place, _CALL_SECONDS)) for place in places]
        found = retrying(_CALL_SECONDS)(committed, self._consumer, places)
        stored = [StoredOffset.of(one) for one in found]
        remembered = memory.remembers_later(topic.id)
        self._reached = begin_at(self._name, topic, stored, bounds, remembered=remembered)
        self.renew_offsets()
        if not remembered:
            memory.remember_later(topic.id)
        begun = self._reached.items()
        self._consumer.assign([TopicPartition(self._name, at, one.offset, "", one.epoch) for at, one in begun])

    def renew_producer(self) -> None:
        """After a transaction that failed."""
        self._transaction = self._new_transaction()
        self._transaction.open()

    def renew_offsets(self) -> None:
        """Store all of them again: Kafka forgets each that was not stored for a while."""
        for number, end in self._ends.items():
            self._reached[number] = self._reached[number]._replace(end=end)
        self._transact((), self._reached)

    def read(self) -> list[_Retry]:
        """Some records, as many as there are; waits for the first."""
        found: list[_Retry] = []
        size = 0
        wait = _WAIT_SECONDS
        while len(found) < _AT_ONCE and size < _LEAST_BYTES:
            more = self._consumer.consume(_AT_ONCE // 10, wait)
            if not more:
                return found
            for message in more:
                error = message.error()
                if error is None:
                    found.append(_Retry.of(message))
                    size += len(message.value() or b"") + len(message.key() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._ends[message.partition() or 0] = message.offset() or 0
                elif error.code() == KafkaError._LOG_TRUNCATION:
                    raise truncated(self._name, message.partition() or 0)
                else:
                    raise KafkaException(error)
            wait = 0
        return found

    def write(self, records: Sequence[_Retry], moved: Sequence[Record]) -> None:
        """Write ``moved``, and that these were, in one transaction.

        Raises:
            RefusedError: topics do not take them; nothing was written.
            TransactionTimeoutError, KafkaException: something else; likewise, or Kafka did not say.
        """
        reached = {record.partition: Reached(record.offset + 1, record.epoch) for record in records}
        self._transact(moved, reached)
        self._reached.update(reached)

    def has(self, topic: str) -> bool:
        """Whether there is a topic."""
        return bool(self._directory.look([topic])[topic].partitions)

    def _transact(self, records: Sequence[Record], reached: Mapping[int, Reached]) -> None:
        if self._described() != self._topics:
            raise _ChangedError
        offsets = to_store(self._name, self._topics[self._name], reached)
        membership = self._consumer.consumer_group_metadata()
        transaction = self._transaction
        transaction.begin(KnownLimits())
        try:
            transaction.produce(records)
            transaction.commit(offsets, membership)
        except KafkaException as error:
            raise transaction.failed(error.args[0], offsets, membership) from error

    def _new_transaction(self) -> KafkaTransaction:
        topics = self._settings.topics
        writing = producer_settings(_transactional_id(topics), _TRANSACTION_MS) | {"linger.ms": 0}
        client = self._settings.client(**writing)
        return KafkaTransaction(client, _TRANSACTION_MS, self._directory, topics.progress)

    def _described(self) -> dict[str, TopicDescription]:
        """The topics as they are now; waits for one that is being made again, or that a broker does not know yet."""
        wanted = (self._name, self._settings.topics.half)
        ask = retrying_until(lambda found: len(found) == len(wanted), _MISSING_SECONDS)
        found: dict[str, TopicDescription] = ask(described, self._admin, wanted)
        for name in wanted:
            if name not in found:
                raise JobFailedError(f"Kafka has no topic {name} any more.")
        return found


def _transactional_id(topics: protocol.Topics) -> str:
    return f"checkback-later:{topics.prefix}"
