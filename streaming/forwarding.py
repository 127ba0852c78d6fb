"""Moves half messages from ``cb.later`` to ``cb.half``, each once.

Consumers write there what they are to get again later, within a Kafka transaction that also stores their offsets. One
that dies in the midst of it holds back whoever reads committed behind it. On a topic of its own that is retries only;
on ``cb.half`` it would be everybody's transactions. Here each transaction is a moment long.
"""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from time import monotonic, time_ns
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from checkback import protocol
from checkback.consumer.retry import REASON
from checkback.exceptions import CheckbackError, JobFailedError, OwnTopicError, TakenOverError
from checkback.lost_calls import within
from checkback.outages import Outage
from streaming.brokers.bounded import add_offsets
from streaming.brokers.client import SinkSettings
from streaming.brokers.producers import error_code, init_transactions, producer_settings, warm_up

_LOGGER = logging.getLogger(__name__)
_AT_ONCE = 500
_LEAST_BYTES = 4 << 20
"""With so many, what is in hand is moved before more is read."""
_WAIT_SECONDS = 0.1
_TRANSACTION_MS = 10_000
_CALL_SECONDS = 10.0
_COUNT_SECONDS = 30.0
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_REFUSALS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD})
_NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

Headers = list[tuple[str, bytes | None]]


class _RefusedError(Exception):
    """A topic does not take one record of a transaction."""

    def __init__(self, place: tuple[int, int], topic: str, why: str) -> None:
        super().__init__(f"{topic} does not take it ({why})")
        self.place = place
        self.topic = topic


class Moved(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int | None
    headers: Headers


class Forwarder:
    """A thread that reads ``cb.later`` as the group ``<prefix>later``, until it is stopped.

    Kafka may go away and come back. Another one on the same topics, of a job that has taken over, ends this one.
    """

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._failure: CheckbackError | None = None
        self._outage = Outage("moving cb.later", lambda: time_ns() // 1_000_000)
        self._thread = threading.Thread(target=self._run, name="checkback-later", daemon=True)
        self._refused: dict[tuple[int, int], dict[str, str]] = {}
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
            JobFailedError: Kafka does not allow it, or something else that does not pass by itself.
        """
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with _Clients(self._settings) as clients:
                    self._move(clients)
            except KafkaException as error:
                self._failure = self._explained(error)
                if self._failure is not None:
                    return
                self._stopping.wait(self._outage.failed(error))
            except CheckbackError as error:
                self._failure = error
                return
            except Exception as error:  # noqa: BLE001  (a thread that ends in silence leaves retries undelivered)
                self._failure = JobFailedError(f"Moving {self._settings.topics.later} failed: {error!r}.")
                self._failure.__cause__ = error
                return

    def _move(self, clients: "_Clients") -> None:
        clients.begin()
        count_at = monotonic() + _COUNT_SECONDS
        while not self._stopping.is_set():
            records = clients.read()
            if records:
                self._write(clients, records)
                self.moved += len(records)
            self._outage.answered()
            if monotonic() >= count_at:
                if clients.grown():
                    return
                count_at = monotonic() + _COUNT_SECONDS

    def _write(self, clients: "_Clients", records: Sequence[Message]) -> None:
        one_by_one = False
        while True:
            try:
                clients.write([(record, self._where(clients, record)) for record in records], one_by_one=one_by_one)
            except _RefusedError as error:
                if one_by_one or len(records) == 1:
                    self._refused.setdefault(error.place, {})[error.topic] = str(error)
                one_by_one = True  # a batch of them may be too large where each would not be
                clients.renew()
            else:
                self._refused.clear()
                return

    def _where(self, clients: "_Clients", record: Message) -> Moved:
        """To ``cb.half``; what that does not take, to the dead letters of the group that wanted it again.

        Raises:
            OwnTopicError: no topic takes it.
        """
        topics, headers = self._settings.topics, _headers_of(record)
        refused = self._refused.get(_place(record), {})
        if headers is not None and not refused:
            return Moved(topics.half, (record.partition() or 0) % clients.half_partitions, headers)
        why = "; ".join(refused.values()) or "its headers cannot be read"
        lies = f"{topics.later}:{record.partition()}:{record.offset()}"
        _LOGGER.error("The record at %s cannot be tried again later: %s", lies, why)
        headers = headers or []
        wanted = (dict(headers).get(protocol.TOPIC) or b"").decode(errors="replace")
        group = wanted.removeprefix(topics.retry(""))
        if group != wanted and topics.dead(group) in clients.known and topics.dead(group) not in refused:
            kept = [pair for pair in headers if not pair[0].startswith(protocol.RESERVED_PREFIX)]
            return Moved(topics.dead(group), None, [*kept, (REASON, why.encode())])
        if topics.rejected in refused:
            raise OwnTopicError(f"The record at {lies} can be put nowhere: {why}. Correct those topics.")
        said: Headers = [(protocol.REASON, why.encode()), (protocol.FROM, lies.encode())]
        return Moved(topics.rejected, None, [*said, *headers])

    def _explained(self, error: KafkaException) -> CheckbackError | None:
        """What ended it, or None for what may pass."""
        code, topics = error_code(error), self._settings.topics
        if code in _FENCED:
            return TakenOverError(f"Another job moves {topics.later} now, so this one has been taken over.")
        if code in _NOT_ALLOWED:
            return JobFailedError(
                f"Kafka does not allow the job to move {topics.later} ({error}): grant it read on that topic and on "
                f"the group {topics.later}, write on {topics.half} and {topics.prefix}dlq.*, and the transactional id "
                f"{_transactional_id(topics)}."
            )
        return None


class _Clients:
    """A consumer and a producer, whose transactions fence those of the forwarder before."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        topics = settings.topics
        reading = {
            "group.id": topics.later,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 200,
        }
        self._consumer = Consumer(settings.client(**reading))
        self._producer = self._new_producer()
        self._reports: list[_RefusedError] = []
        self._partitions = self.half_partitions = 0
        self.known = frozenset[str]()
        """Names of topics."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            within(_CALL_SECONDS, self._consumer.close)
        self._producer.purge()
        with contextlib.suppress(SystemError):  # see _acknowledged
            self._producer.flush(0)

    def begin(self) -> None:
        """Fence; only then is what was stored the last word. Read on from there."""
        self._fence()
        self._partitions, self.half_partitions = self._counts()
        places = [TopicPartition(self._settings.topics.later, number) for number in range(self._partitions)]
        self._consumer.assign(self._consumer.committed(places, timeout=_CALL_SECONDS))

    def renew(self) -> None:
        """After a refusal: librdkafka's producer has lost count of its records then, and its next transaction fails."""
        self._producer.purge()
        self._producer = self._new_producer()
        self._fence()

    def grown(self) -> bool:
        """Whether one of the topics has more partitions now."""
        return self._counts() != (self._partitions, self.half_partitions)

    def read(self) -> list[Message]:
        """Some records, as many as there are; waits for the first."""
        found: list[Message] = []
        size = 0
        wait = _WAIT_SECONDS
        while len(found) < _AT_ONCE and size < _LEAST_BYTES:
            more = self._consumer.consume(_AT_ONCE // 10, wait)
            if not more:
                return found
            for record in more:
                error = record.error()
                if error is not None:
                    raise KafkaException(error)
                size += len(record.value() or b"") + len(record.key() or b"")
            found += more
            wait = 0
        return found

    def write(self, records: Sequence[tuple[Message, Moved]], *, one_by_one: bool) -> None:
        """Write these and that they were read, in one transaction; each in a batch of its own if ``one_by_one``.

        Raises:
            _RefusedError: Kafka does not take one of them; nothing was written.
            KafkaException: something else.
        """
        self._reports = []
        self._producer.begin_transaction()
        for record, (topic, partition, headers) in records:
            self._produce(record, topic, partition, headers)
            if one_by_one:
                self._acknowledged()
        self._acknowledged()
        offsets: dict[int, int] = {record.partition() or 0: (record.offset() or 0) + 1 for record, _ in records}
        stored = [TopicPartition(self._settings.topics.later, number, offset) for number, offset in offsets.items()]
        membership = self._consumer.consumer_group_metadata()
        add_offsets(self._producer, stored, membership, _CALL_SECONDS)
        self._producer.commit_transaction(_CALL_SECONDS)

    def _acknowledged(self) -> None:
        try:
            self._producer.flush(_CALL_SECONDS)
        except SystemError as error:
            # After a fatal error confluent-kafka calls our callback with that error already raised.
            if isinstance(error.__cause__, KafkaException):
                raise error.__cause__ from None
            raise
        if self._reports:
            raise self._reports[0]

    def _produce(self, record: Message, topic: str, partition: int | None, headers: Any) -> None:
        place = _place(record)

        def reported(error: KafkaError | None, _: Message | None) -> None:
            if error is not None and error.code() in _REFUSALS:
                self._reports.append(_RefusedError(place, topic, error.str()))

        given: Mapping[str, Any] = {} if partition is None else {"partition": partition}
        try:
            self._producer.produce(topic, record.value(), record.key(), on_delivery=reported, headers=headers, **given)
        except KafkaException as error:
            reported(error.args[0], None)
            self._acknowledged()  # what was refused before: after that the client takes no more
            raise

    def _new_producer(self) -> Producer:
        writing = producer_settings(_transactional_id(self._settings.topics), _TRANSACTION_MS) | {"linger.ms": 0}
        return Producer(self._settings.client(**writing))

    def _fence(self) -> None:
        warm_up(self._producer, self._settings.topics.half, _CALL_SECONDS)
        init_transactions(self._producer, _CALL_SECONDS)

    def _counts(self) -> tuple[int, int]:
        topics = self._settings.topics
        known = self._producer.list_topics(timeout=_CALL_SECONDS).topics
        self.known = frozenset(known)
        later, half = (len(known[name].partitions) if name in known else 0 for name in (topics.later, topics.half))
        if not later or not half:
            raise JobFailedError(f"Kafka has no topic {topics.later if half else topics.half} any more.")
        return later, half


def _transactional_id(topics: protocol.Topics) -> str:
    return f"checkback-later:{topics.prefix}"


def _place(record: Message) -> tuple[int, int]:
    return record.partition() or 0, record.offset() or 0


def _headers_of(record: Message) -> Headers | None:
    try:
        found: Any = record.headers() or []
        return list(found)
    except UnicodeDecodeError:
        return None
