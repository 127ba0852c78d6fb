"""The job's clock, held against two that nobody sets on its machine: Kafka's, and the time since the machine's start.

All deadlines count from the time of a batch, which is the machine's clock. Dated days ahead by mistake, one batch would
end every open message's time; dated back, its rows would be dropped as late, which the batch's entry tells alone. So no
batch is evaluated that is dated after Kafka's clock by more than ``job.clock_tolerance``.
"""

import time
from collections.abc import Callable
from typing import Any

from checkback.exceptions import JobStoppedError
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.library import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Producer
from checkback.operations.times import difference_ms
from streaming.brokers.client import SinkSettings

_DAY_MS = 24 * 3_600_000
_WAIT_MS = 30_000


def wall_ms() -> int:
    """Milliseconds since 1970, by the machine's clock."""
    return time.time_ns() // 1_000_000


def running_ms() -> int:
    """Milliseconds since the machine was started, those included in which it was suspended. It cannot be set."""
    # Linux' monotonic clock stands still while the machine is suspended; those of other systems do not
    name = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if name is None else time.clock_gettime_ns(name)) // 1_000_000


def kafka_ms(settings: SinkSettings) -> int | None:
    """Kafka's clock: that of the broker that leads partition 0 of ``cb.progress``; None when that topic does not say.

    A record is written to it, whose time the broker gives (``message.timestamp.type=LogAppendTime``), and which nobody
    reads. Takes 20 ms.

    Raises:
        KafkaException: Kafka did not take it.
    """
    said: list[tuple[Any, Any]] = []
    options: dict[str, Any] = {"acks": 1, "message.timeout.ms": _WAIT_MS, "linger.ms": 0}
    producer = make_client(Producer, settings.client(**options))
    # a key, should the topic be compacted
    producer.produce(
        settings.topics.progress,
        key=b"clock",
        partition=0,
        on_delivery=lambda error, message: said.append((error, message)),
    )
    producer.flush()
    ((error, message),) = said
    if error is not None:
        raise KafkaException(error)
    kind, stamp = message.timestamp()
    return int(stamp) if kind == TIMESTAMP_LOG_APPEND_TIME else None


class JobClock:
    """Finds out how far a batch is dated ahead.

    ``ask`` gives Kafka's clock or None (:func:`kafka_ms`), ``wall`` this machine's, ``running`` one that only runs
    forward; all in milliseconds.
    """

    def __init__(
        self,
        ask: Callable[[], int | None],
        tolerance_ms: int,
        wall: Callable[[], int] = wall_ms,
        running: Callable[[], int] = running_ms,
    ) -> None:
        self._ask = ask
        self._tolerance_ms = tolerance_ms
        self._wall = wall
        self._running = running
        self._then: tuple[int, int] | None = None

    def compare(self) -> None:
        """Hold this machine's clock against Kafka's.

        Raises:
            JobStoppedError: they are further apart than is tolerated.
            KafkaException: Kafka did not say.
        """
        running, asked = self._running(), self._wall()
        kafka = self._ask()
        heard = self._wall()
        if kafka is None:  # then at least this clock must not jump from now on
            self._then = self._then or (heard, running)
            return
        difference = difference_ms(asked, kafka, heard)
        if abs(difference) > self._tolerance_ms:
            raise JobStoppedError(
                f"This machine's clock is {abs(difference) / 1000:.0f} s {'ahead of' if difference > 0 else 'behind'} "
                "Kafka's, more than job.clock_tolerance: every message's time would be up too early, or too late. Set "
                "the clock that is wrong, then start again."
            )
        self._then = kafka, running

    def now_ms(self) -> int:
        """Kafka's clock as it was when it was asked, and the time that has passed since; never asked, the machine's."""
        if self._then is None:
            return self._wall()
        kafka, running = self._then
        return kafka + self._running() - running

    def compare_daily(self) -> None:
        """Compare again after a day, so that small differences do not add up; Kafka's silence is not a reason to stop.

        Raises:
            JobStoppedError: see :meth:`compare`.
        """
        if self._then is None or self._running() - self._then[1] >= _DAY_MS:
            try:
                self.compare()
            except KafkaException:
                return  # without Kafka nothing can be written anyway

    def refuse_ahead(self, batch: int, time_ms: int) -> None:
        """Refuse a batch that is dated after Kafka's clock by more than is tolerated, as far as one can know.

        Raises:
            JobStoppedError: it is.
        """
        if self._then is None:
            return
        ahead = time_ms - self.now_ms()
        if ahead > self._tolerance_ms:
            raise JobStoppedError(
                f"The clock is ahead by more than job.clock_tolerance: batch {batch} is dated {ahead / 1000:.0f} s "
                "after Kafka's clock and the time that has passed since, and messages would be given up on too early. "
                "Nothing was evaluated: see that the clock is right, then start again."
            )


def compared_clock(settings: SinkSettings, tolerance_ms: int) -> JobClock:
    """The job's clock, after it was compared with Kafka's.

    Raises:
        JobStoppedError, KafkaException: see :meth:`JobClock.compare`.
    """
    clock = JobClock(lambda: kafka_ms(settings), tolerance_ms)
    clock.compare()
    return clock
