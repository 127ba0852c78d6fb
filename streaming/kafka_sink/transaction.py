"""One Kafka transaction of a state partition, with a producer of its own; and what Kafka refused in it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

from checkback.exceptions import CheckbackError, ConfigurationError, TransactionTimeoutError
from checkback.kafka.librdkafka.errors import FENCED, GONE, REFUSED, TOO_LARGE, error_code
from checkback.kafka.librdkafka.library import KafkaError, KafkaException, TopicPartition
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.kafka.reaching import REQUEST_MS
from checkback.wire.protocol import Topics
from streaming.batch.record import Record
from streaming.brokers.directory import Known, TopicDirectory
from streaming.brokers.retrying import retrying
from streaming.kafka_sink.small_batches import SizeLimitedTopics
from streaming.kafka_sink.topic_limits import KnownLimits

_AWAY_SECONDS = 120.0
_OPERATION_SECONDS = 30.0
_MARGIN_SECONDS = 1.5 * REQUEST_MS / 1000
"""librdkafka notices that its time is over only when a connection fails, or a request after REQUEST_MS."""
_AGAIN_SECONDS = 0.1
_ABORT_SECONDS = 5.0
_LOOK_SECONDS = 2.0
_STALLED_SECONDS = 120.0
"""When brokers take nothing at all for that long, what is left is not taken now. Slow ones may take what they need."""
_NARROW_SECONDS = 10.0
"""A tenth of the transaction's time, if that is less: for one topic that takes a few messages at a time."""

NOT_NOW = GONE | {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._MSG_TIMED_OUT,
}
"""What the brokers say, or have kept silent about, of the topic or a partition: the next pass knows by asking them."""
_SAYS_NOTHING = frozenset({KafkaError._STATE, KafkaError._FATAL})


class TopicsRefusedError(CheckbackError):
    """Topics refused records of a transaction; nothing of it will be visible.

    ``topics`` has the error of each that is known; after TOPIC_AUTHORIZATION_FAILED Kafka does not say which it was.
    ``known`` is what the transaction knew of its topics.
    """

    def __init__(self, topics: Mapping[str, KafkaError], known: Known, cause: KafkaError) -> None:
        super().__init__(f"Kafka refused records: {cause.str()}")
        self.topics = dict(topics)
        self.known = known
        self.cause = cause


class KafkaTransaction:
    """Steps 2, 5 and 6 of :func:`streaming.kafka_sink.partition_writer.write_partition`; one, or a ``series`` of them.

    Fast path: no callback for what is delivered, only for what fails. What it learns it says when it fails: see
    :meth:`failed`. The transaction after one that failed has a producer of its own.
    """

    def __init__(
        self,
        client: dict[str, Any],
        timeout_ms: int,
        directory: TopicDirectory,
        progress_topic: str,
        *,
        series: bool = False,
    ) -> None:
        self._progress_topic = progress_topic
        self._own_topics = Topics(progress_topic.removesuffix("progress")).all()
        self._directory = directory
        self._timeout_ms = timeout_ms
        self._batch_bytes = int(client["batch.size"])
        self._refused: dict[str, KafkaError] = {}
        self._stall = _Stall(min(_STALLED_SECONDS, timeout_ms / 1000))
        self._dated_ms = 0
        self._began = monotonic()
        # no method of this object as a callback: the garbage collector is off in workers, and that would be a circle
        failures = {"on_delivery": partial(_note, self._refused, self._stall), "delivery.report.only.error": True}
        self.kafka = Transactional({**client, **failures}, series=series)
        self._producer = self.kafka.producer
        self._narrow: SizeLimitedTopics | None = None
        self.known = Known(directory)
        """How the topics of this batch stand."""

    def open(self) -> None:
        """Fence every earlier producer of this state partition, and settle what it left half done.

        Raises:
            StuckError: that cannot be settled; they are fenced all the same.
            ConfigurationError: the transaction time-out is longer than the broker allows.
        """
        retrying(_AWAY_SECONDS)(self.kafka.connect, self._progress_topic)
        try:
            self.kafka.fence()
        except KafkaException as error:
            if error_code(error) == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise ConfigurationError(
                    f"job.sink_transaction_timeout ({self._timeout_ms / 1000:g} s) is longer than the brokers' "
                    "transaction.max.timeout.ms: make it shorter, or let them allow more."
                ) from error
            raise

    def begin(self, rules: KnownLimits, dated_ms: int = 0) -> None:
        """Begin, knowing what topics refuse; records are dated ``dated_ms`` (0: by this machine's clock)."""
        self._dated_ms = dated_ms
        limits = {name: rule.fits for name, rule in rules.topics.items() if rule.fits < self._batch_bytes}
        if limits:
            known = self.known
            seconds = min(_NARROW_SECONDS, self._timeout_ms / 1000 / 10)
            self._narrow = SizeLimitedTopics(limits, lambda topic: max(1, known.again(topic).partitions), seconds)
        self.kafka.begin()
        self._began = monotonic()

    def pace_ms(self, topic: str) -> float:
        """See :meth:`streaming.kafka_sink.small_batches.SizeLimitedTopics.pace_ms`."""
        return self._narrow.pace_ms(topic) if self._narrow is not None else 0.0

    def produce(self, records: Iterable[Record]) -> int:
        """Write these; gives their number. Memory is bounded: librdkafka's queue is."""
        written = 0
        send, narrow, dated_ms = self._producer.produce, self._narrow, self._dated_ms
        for record in records:
            written += 1
            if narrow is not None and narrow.hold(record):
                if narrow.full:
                    narrow.write(self._write, self._flush)
                continue
            topic, partition, key, value, headers = record
            try:
                send(topic, value, key, partition, timestamp=dated_ms, headers=headers)  # type: ignore[arg-type] # lists are invariant
            except (BufferError, KafkaException):
                self._write(record)
        self.kafka.poll(0)
        return written

    def commit(
        self, done: Sequence[TopicPartition], group: Any, renewal: tuple[TopicPartition, Any] | None = None
    ) -> None:
        """Put the progress offsets, and what is to be renewed beside them, into the transaction, and commit."""
        if self._narrow is not None:
            self._narrow.write(self._write, self._flush)
        self._add_offsets(done, group)
        if renewal is not None:
            offset, renewing = renewal
            self._add_offsets([offset], renewing)
        self._flush()
        self.kafka.commit(self._timeout_ms / 1000)

    def _add_offsets(self, offsets: Sequence[TopicPartition], group: Any) -> None:
        """Put offsets into the transaction; repeat it while the coordinator is away, as long as the batch may take."""
        deadline = monotonic() + self._timeout_ms / 1000
        while True:
            try:
                return self.kafka.add_offsets(offsets, group, _OPERATION_SECONDS, _MARGIN_SECONDS)
            except KafkaException as error:
                repeatable = error.args[0].retriable() and not error.args[0].txn_requires_abort()
                if not repeatable or monotonic() >= deadline:
                    raise
            sleep(_AGAIN_SECONDS)

    def failed(self, error: KafkaError, done: Sequence[TopicPartition], group: Any) -> Exception:
        """Abort; gives what ``error`` means: :class:`TopicsRefusedError`, ``TransactionTimeoutError``, or itself.

        After a record was refused every call but one fails with no more than "erroneous state", and after a fatal
        error ``produce`` says no more than that there was one. Putting the progress offsets into the transaction says
        which; ``done`` and ``group`` are for that.
        """
        if error.code() in _SAYS_NOTHING:
            error = self._reason(done, group) or error
        if error.fatal():  # it is no longer ours to abort
            if error.code() in FENCED and monotonic() - self._began >= self._timeout_ms / 1000:
                return TransactionTimeoutError(
                    f"Kafka aborted a batch that took longer than job.sink_transaction_timeout ("
                    f"{self._timeout_ms / 1000:g} s): make it longer, or job.max_offsets_per_trigger smaller (a batch "
                    "that has begun keeps its size). Nothing is lost; after a start the batch is run again."
                )
            return KafkaException(error)
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            # There may be no transaction yet, and librdkafka takes that badly; the next producer settles it.
            self.kafka.purge(_ABORT_SECONDS)
        else:
            self.abort()
        if self._refused or error.code() in REFUSED or self._some_timed_out():
            return TopicsRefusedError(self._refused, self.known, error)
        return KafkaException(error)

    def _some_timed_out(self) -> bool:
        """Whether messages were not taken in time, though brokers answer: then the others can be delivered."""
        timed_out = self._stall.left
        if not timed_out or any(topic in self._own_topics for topic, _ in timed_out):
            return False
        try:
            self._directory.look({topic for topic, _ in timed_out}, again=True, seconds=0)
        except KafkaException:
            return False
        for topic, partition in timed_out:
            self._directory.timed_out(topic, partition)
            self._refused[topic] = KafkaError(KafkaError._MSG_TIMED_OUT, f"{topic} did not take a message in time")
        return True

    def abort(self) -> None:
        """Abort, so that no consumer waits for this transaction's end. Without an answer Kafka does it in time."""
        self.kafka.abort(_ABORT_SECONDS)

    def _reason(self, done: Sequence[TopicPartition], group: Any) -> KafkaError | None:
        try:
            self.kafka.add_offsets(done, group, _OPERATION_SECONDS)
        except KafkaException as error:
            return error.args[0]  # not the exception: with its traceback it would be in a circle with this frame
        return None

    def _write(self, record: Record) -> None:
        topic, partition, key, value, headers = record
        looked = 0.0
        self._stall.begin()
        while True:
            try:
                self._producer.produce(topic, value, key, partition, timestamp=self._dated_ms, headers=headers)  # type: ignore[arg-type] # lists are invariant
                break
            except BufferError:  # bounded memory: wait until some are out
                self.kafka.poll(0.05)
                looked += 0.05
                if looked >= _LOOK_SECONDS:
                    looked = 0.0
                    self._refuse_lost_topics()
                    self._refuse_stalled()
            except KafkaException as error:
                if error_code(error) in TOO_LARGE:  # larger than librdkafka sends
                    self._refused[topic] = error.args[0]
                raise

    def _flush(self) -> None:
        deadline = monotonic() + self._timeout_ms / 1000
        self._stall.begin()
        while monotonic() < deadline:
            if not self.kafka.flush(_LOOK_SECONDS):
                return
            self._refuse_lost_topics()
            self._refuse_stalled()

    def _refuse_stalled(self) -> None:
        """Say so when brokers have taken nothing for long. librdkafka's own time-out counts slowness, too."""
        if self._stall.look(len(self._producer), monotonic()):
            self.kafka.purge(_ABORT_SECONDS)  # says which messages are left
            raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "Kafka has taken nothing for long"))

    def _refuse_lost_topics(self) -> None:
        """Left to itself librdkafka waits for a topic that was deleted, or a leader, until its messages time out."""
        try:
            lost = self.known.lost()
        except KafkaException:  # no broker to ask: they may come back while the messages wait
            return
        for topic, why in lost.items():
            if topic not in self._own_topics:
                self._refused[topic] = KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"{topic}: {why}")
        if self._refused:
            raise KafkaException(next(iter(self._refused.values())))


class _Stall:
    """Whether messages go out at all, and which were left when they did not."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fewest = 0
        self._since = 0.0
        self.over = False
        """Nothing went out for that long."""
        self.left: set[tuple[str, int]] = set()
        """Topics and partitions of messages that were not taken in time."""

    def begin(self) -> None:
        """Wait for messages to go out."""
        self._since = 0.0

    def look(self, waiting: int, now: float) -> bool:
        """Whether none of the ``waiting`` messages has gone out for too long; called every few seconds meanwhile."""
        if not self._since or waiting < self._fewest:
            self._since, self._fewest = now, waiting
        self.over = now - self._since >= self._seconds
        return self.over


def _note(refused: dict[str, KafkaError], stall: _Stall, error: KafkaError | None, message: Any) -> None:
    if error is None:
        return
    if error.code() in REFUSED:
        refused.setdefault(message.topic(), error)
    elif (stall.over or error.code() == KafkaError._MSG_TIMED_OUT) and message.partition() is not None:
        stall.left.add((message.topic(), message.partition()))
