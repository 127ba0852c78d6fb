"""The transport on confluent-kafka, librdkafka's client."""

import contextlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.reaching import CONNECT_MS, no_kafka
from checkback.transports.base import OP_LINGER_MS, Lost, OutgoingRecord, not_acknowledged, not_written

_LONGEST_WAIT_SECONDS = 0.02
_IDLE_SECONDS = 0.5
_JUST_MADE_SECONDS = 2.0  # until a broker knows of a topic that was made a moment ago
_LOOK_AGAIN_SECONDS = 0.1
_WRONG_SETTINGS = frozenset({KafkaError._INVALID_ARG, KafkaError._CONFLICT})
_TIMED_OUT = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})


class _Delivery:
    """A half message on its way."""

    __slots__ = ("_asleep", "done", "error", "offset")

    def __init__(self) -> None:
        self.done = False
        self.error: KafkaError | None = None
        self.offset = -1
        self._asleep = threading.Lock()  # a bare lock: a Semaphore is Python, and costs as much as all the rest
        self._asleep.acquire()

    def reported(self, error: KafkaError | None, message: Message) -> None:
        """Librdkafka's delivery report, from whichever thread polls."""
        self.error = error
        if error is None:
            self.offset = message.offset() or 0
        self.done = True
        self.wake()

    def wake(self) -> None:
        """Let the thread that waits look again."""
        with contextlib.suppress(RuntimeError):  # woken already
            self._asleep.release()

    def sleep(self, seconds: float) -> None:
        """Wait to be woken, for at most ``seconds``."""
        self._asleep.acquire(timeout=seconds)


class ConfluentTransport:
    """Two clients, so that an op never stands before a half message, and many ops share a request.

    See :class:`~checkback.transports.Transport`.

    librdkafka hands out delivery reports only to a thread that polls. Of the threads that wait, one polls for all;
    when its own report has come it wakes another. With one thread that is no change of threads at all.
    """

    def __init__(self, bootstrap_servers: str, half_timeout_ms: int, options: Mapping[str, Any]) -> None:
        self._half_timeout_ms = half_timeout_ms
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": half_timeout_ms,
            "log_level": 2,
            **options,
        }
        self._options = {"bootstrap.servers": bootstrap_servers, "log_level": 2, **options}
        try:
            self._halves = Producer({"linger.ms": 0, **settings})
            self._ops = Producer({"linger.ms": OP_LINGER_MS, "delivery.report.only.error": True, **settings})
            self._halves.list_topics(timeout=min(CONNECT_MS, half_timeout_ms) / 1000)
        except (KafkaException, ValueError, TypeError) as error:
            if not isinstance(error, KafkaException) or error.args[0].code() in _WRONG_SETTINGS:
                raise ConfigurationError(f"confluent-kafka cannot use these settings: {error}.") from error
            raise no_kafka(bootstrap_servers, error) from error
        self._polling = threading.Lock()
        self._waiting: deque[_Delivery] = deque()
        self._closing = threading.Event()
        # Only lost ops are reported, and nobody waits for those.
        self._idle = threading.Thread(target=self._poll_idly, name="checkback-ops", daemon=True)
        self._idle.start()

    def partitions(self, half_topic: str, op_topic: str) -> int:
        """See :class:`~checkback.transports.Transport`."""
        return min(self._partitions(self._halves, half_topic), self._partitions(self._ops, op_topic))

    def _partitions(self, client: Producer, topic: str) -> int:
        until = monotonic() + min(self._half_timeout_ms / 1000, _JUST_MADE_SECONDS)
        while True:
            try:
                # all topics: asking for one by its name may create it
                return len(client.list_topics(timeout=self._half_timeout_ms / 1000).topics[topic].partitions)
            except (KafkaException, KeyError) as error:
                if isinstance(error, KafkaException) or monotonic() > until:
                    raise ConfigurationError(f"Kafka has no topic {topic}. ({error!r})") from error
            sleep(_LOOK_AGAIN_SECONDS)

    def missing(self, topics: Sequence[str]) -> list[str]:
        """See :class:`~checkback.transports.Transport`."""
        admin = AdminClient(self._options)  # kept: its answers end with it
        answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=CONNECT_MS / 1000)
        return [name for name, answer in answers.items() if _is_missing(answer)]

    def write_half(self, record: OutgoingRecord) -> int:
        """See :class:`~checkback.transports.Transport`."""
        delivery = _Delivery()
        try:
            _produce(self._halves, record, delivery.reported)
        except (KafkaException, BufferError, ValueError, TypeError) as error:
            raise not_written(error) from error
        self._wait(delivery)
        if delivery.error is None and delivery.done:
            return delivery.offset
        if delivery.error is None or delivery.error.code() in _TIMED_OUT:
            raise not_acknowledged(self._half_timeout_ms, delivery.error)
        raise not_written(delivery.error)

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """See :class:`~checkback.transports.Transport`."""

        def reported(error: KafkaError | None, _: Message) -> None:
            lost(KafkaException(error))

        try:
            _produce(self._ops, record, reported)
        except (KafkaException, BufferError, ValueError) as error:  # closed meanwhile, too
            lost(error)

    def flush(self, seconds: float) -> None:
        """See :class:`~checkback.transports.Transport`."""
        self._ops.flush(seconds)

    def close(self, seconds: float) -> None:
        """See :class:`~checkback.transports.Transport`."""
        self._closing.set()
        self._idle.join(seconds)
        self._ops.flush(seconds)
        self._halves.flush(seconds)

    def _wait(self, delivery: _Delivery) -> None:
        # twice: librdkafka reports its own time-out a little after it
        deadline = monotonic() + 2 * self._half_timeout_ms / 1000
        while not delivery.done and monotonic() < deadline:
            if self._polling.acquire(blocking=False):
                try:
                    while not delivery.done and monotonic() < deadline:
                        self._halves.poll(_LONGEST_WAIT_SECONDS)
                finally:
                    self._polling.release()
                    self._wake_another()
            else:
                self._waiting.append(delivery)
                # bounded: the thread that polls may have ended between the two lines above
                delivery.sleep(_LONGEST_WAIT_SECONDS)

    def _wake_another(self) -> None:
        while self._waiting:
            try:
                other = self._waiting.popleft()
            except IndexError:  # taken by another thread
                return
            if not other.done:
                other.wake()
                return

    def _poll_idly(self) -> None:
        while not self._closing.wait(_IDLE_SECONDS):
            self._ops.poll(0)


def _is_missing(answer: "Future[Any]") -> bool:
    try:
        answer.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code in _TIMED_OUT or code == KafkaError._ALL_BROKERS_DOWN:
            raise KafkaUnreachableError(f"Kafka does not say which topics it has: {error}.") from error
        return bool(code == KafkaError.UNKNOWN_TOPIC_OR_PART)
    return False


def _produce(client: Producer, record: OutgoingRecord, reported: Any) -> None:
    headers = list(record.headers)
    client.produce(record.topic, record.value, record.key, record.partition, reported, headers=headers)  # type: ignore[arg-type] # lists are invariant
