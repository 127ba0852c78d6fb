"""Writing with librdkafka: half messages that are waited for, ops that are not, and clients that are replaced."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from checkback.exceptions import HalfMessageError
from checkback.kafka.librdkafka.errors import ENDED, NOT_ALLOWED, TIMED_OUT, is_spent, polled
from checkback.kafka.transport import (
    NO_PLACE,
    Appended,
    Heard,
    Lost,
    OutgoingRecord,
    may_not_write,
    not_acknowledged,
    not_written,
)

_LOGGER = logging.getLogger(__name__)
_LONGEST_WAIT_SECONDS = 0.02
Placed = Callable[[Appended | BaseException], None]


def _without_place(message: Message) -> KafkaError | None:
    """The error that stands for a success without an offset: offset 0 would be the place of another half message.

    librdkafka reports one if a broker answers a repeated request with DUPLICATE_SEQUENCE_NUMBER.
    """
    return KafkaError(KafkaError._TIMED_OUT, NO_PLACE) if message.offset() is None else None


class _Delivery:
    """A half message on its way."""

    __slots__ = ("_asleep", "done", "error", "offset", "time_ms")

    def __init__(self) -> None:
        self.done = False
        self.error: KafkaError | None = None
        self.offset = self.time_ms = -1
        self._asleep = threading.Lock()  # a bare lock: a Semaphore is Python, and costs as much as all the rest
        self._asleep.acquire()

    def reported(self, error: KafkaError | None, message: Message) -> None:
        """Librdkafka's delivery report, from whichever thread polls."""
        self.error = error or _without_place(message)
        if self.error is None:
            self.offset = message.offset() or 0
            self.time_ms = message.timestamp()[1]
        self.done = True
        self.wake()

    @property
    def timed_out(self) -> bool:
        """Whether nothing was heard of it in time."""
        return not self.done or (self.error is not None and self.error.code() in TIMED_OUT)

    def wake(self) -> None:
        """Let the thread that waits look again."""
        with contextlib.suppress(RuntimeError):  # woken already
            self._asleep.release()

    def sleep(self, seconds: float) -> None:
        """Wait to be woken, for at most ``seconds``."""
        self._asleep.acquire(timeout=seconds)


class _FailingClient:
    """A client, and what has ended it: librdkafka says that once, and of all later records only that it has ended."""

    def __init__(self, client: Producer) -> None:
        self.client = client
        self._ended_by: KafkaError | None = None

    def hear(self, seconds: float) -> None:
        """Serve what the client has to report, for at most ``seconds``. Not from a report."""
        ended_by = polled(self.client, seconds)
        self._ended_by = self._ended_by or ended_by

    def reason(self, error: KafkaError) -> KafkaError:
        """What has ended the client, where the error says only that it has ended."""
        return self._ended_by or error if error.code() in ENDED else error


class HalfWriter(_FailingClient):
    """Writes half messages with one client; all threads of a process may use it.

    librdkafka hands out delivery reports only to a thread that polls. Of the threads that wait, one polls for all;
    when its own report has come it wakes another. With one thread that is not a change of threads at all.
    """

    def __init__(self, client: Producer, timeout_ms: int) -> None:
        super().__init__(client)
        self._timeout_ms = timeout_ms
        self._polling = threading.Lock()
        self._waiting: deque[_Delivery] = deque()

    def write(self, record: OutgoingRecord, spent: Callable[["HalfWriter"], None]) -> Appended:
        """Write a record, wait until Kafka has it, and say where.

        Raises:
            HalfMessageTimeoutError: Kafka did not acknowledge it in time; it may have it all the same. ``spent`` has
                been told.
            HalfMessageError: it was not written. ``spent`` has been told if this client can write no more.
        """
        delivery = _Delivery()
        try:
            _produce(self.client, record, delivery.reported)
        except KafkaException as error:
            self.hear(0)
            raise self._refused(record, error.args[0], spent) from error
        except (BufferError, ValueError, TypeError) as error:
            raise not_written(error) from error
        self._wait(delivery)
        if delivery.timed_out:
            spent(self)
            raise not_acknowledged(self._timeout_ms, delivery.error)
        if delivery.error is not None:
            raise self._refused(record, delivery.error, spent)
        return Appended(delivery.offset, delivery.time_ms)

    def _refused(
        self, record: OutgoingRecord, error: KafkaError, spent: Callable[["HalfWriter"], None]
    ) -> HalfMessageError:
        why = self.reason(error)
        if is_spent(why):
            spent(self)
        return not_written(may_not_write(record.topic, why) if why.code() in NOT_ALLOWED else why)

    def _wait(self, delivery: _Delivery) -> None:
        # twice: librdkafka reports its own time-out a little after it
        deadline = monotonic() + 2 * self._timeout_ms / 1000
        while not delivery.done and monotonic() < deadline:
            if self._polling.acquire(blocking=False):
                try:
                    while not delivery.done and monotonic() < deadline:
                        self.hear(_LONGEST_WAIT_SECONDS)
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


class OpWriter(_FailingClient):
    """Writes ops with one client. Lost ones are reported, to whoever hears; others, too, where the client says so."""

    def write(self, record: OutgoingRecord, lost: Lost, spent: Callable[["OpWriter"], None]) -> None:
        """Write a record without waiting. This never raises; ``spent`` is told before ``lost``."""

        def reported(error: KafkaError | None, _: Message) -> None:
            if error is None:  # a client of which each is heard
                return
            lost(self._failure(error, spent))

        self._write(record, reported, lost, spent)

    def _write(self, record: OutgoingRecord, reported: Any, lost: Lost, spent: Callable[["OpWriter"], None]) -> None:
        try:
            _produce(self.client, record, reported)
        except KafkaException as error:
            lost(self._failure(error.args[0], spent))
        except (BufferError, ValueError) as error:  # closed meanwhile, too
            lost(error)

    def _failure(self, error: KafkaError, spent: Callable[["OpWriter"], None]) -> KafkaException:
        why = self.reason(error)
        if is_spent(why):
            spent(self)
        return KafkaException(why)

    def write_heard(self, record: OutgoingRecord, heard: Heard, spent: Callable[["OpWriter"], None]) -> None:
        """Likewise, with a client that reports all; ``heard`` is told of each."""

        def reported(error: KafkaError | None, _: Message) -> None:
            heard(None if error is None else self._failure(error, spent))

        self._write(record, reported, heard, spent)

    def write_placed(self, record: OutgoingRecord, placed: Placed, spent: Callable[["OpWriter"], None]) -> None:
        """Likewise; ``placed`` is called once with where the record lies, or with why it was not written."""

        def reported(error: KafkaError | None, message: Message) -> None:
            why = error or _without_place(message)
            if why is None:
                placed(Appended(message.offset() or 0, message.timestamp()[1]))
                return
            placed(self._failure(why, spent))

        self._write(record, reported, placed, spent)


class _Hearing(Protocol):
    client: Producer

    def hear(self, seconds: float) -> None: ...


Writer = TypeVar("Writer", bound=_Hearing)


class Renewed(Generic[Writer]):
    """A writer, and another in its place when it can do no more, or Kafka has not acknowledged a record in time.

    A client may stay behind when a broker has restarted: librdkafka 2.16 has been seen to send nothing for two minutes
    where new clients were served at once. A new one costs little, and at most one is made in ``pause_seconds``.
    """

    def __init__(self, make: Callable[[], Writer], pause_seconds: float) -> None:
        self._make = make
        self._pause_seconds = pause_seconds
        self._lock = threading.Lock()
        self._next = 0.0
        self.writer = make()
        self.replaced: list[Writer] = []
        """What may still write something."""

    @property
    def writers(self) -> list[Writer]:
        """All that may have something to write."""
        with self._lock:
            return [*self.replaced, self.writer]

    def spent(self, writer: Writer) -> None:
        """The writer can do no more, or Kafka has not acknowledged a record of it in time."""
        with self._lock:
            now = monotonic()
            if writer is not self.writer or now < self._next:
                return
            self._next = now + self._pause_seconds
            try:
                self.writer = self._make()
            except KafkaException as error:  # no more threads, for example: it may do better than none
                _LOGGER.warning("Kafka takes nothing from this client, and there is no new one: %s", error)
                return
            self.replaced.append(writer)
        _LOGGER.info("Kafka has not taken a record: a new client takes the place of the old one.")

    def poll_replaced(self) -> None:
        """Hear what became of records of those replaced, and drop those that have no more."""
        for writer in self.writers[:-1]:
            writer.hear(0)
        with self._lock:
            before = self.replaced
            self.replaced = [writer for writer in before if len(writer.client)]
        del before  # only here, since that may take a while


def _produce(client: Producer, record: OutgoingRecord, reported: Any) -> None:
    headers = list(record.headers)
    client.produce(record.topic, record.value, record.key, record.partition, reported, headers=headers)  # type: ignore[arg-type] # lists are invariant
