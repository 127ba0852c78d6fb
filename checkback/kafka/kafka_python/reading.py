"""Reads of one partition with kafka-python, none of which goes on for ever; a thread that does them for one loop."""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from checkback.kafka.kafka_python.polling import poll
from checkback.kafka.reaching import IDLE_MS

_POLL_MS = 100
_ANSWER_MS = 2_000
JUST_NOW_SECONDS = 0.05
"""Bounds are as good as that old, where many are looked for at once."""
T = TypeVar("T")
_CLOSE_SECONDS = 1.0


class PartitionReader:
    """``place`` is a TopicPartition of kafka-python's; several of these may share one ``consumer``, on one thread.

    All raise KafkaError where Kafka does not answer within two seconds, or has no such partition.
    """

    def __init__(self, consumer: Any, place: Any) -> None:
        self._consumer = consumer
        self._place = place
        self._bounds = 0, 0
        self._asked = -math.inf

    def bounds(self, within_seconds: float = 0.0) -> tuple[int, int]:
        """The first offset that is there, and that after the last: now, or as it was such a time ago at most."""
        if monotonic() - self._asked > within_seconds:
            begins = self._consumer.beginning_offsets([self._place], timeout_ms=_ANSWER_MS)
            ends = self._consumer.end_offsets([self._place], timeout_ms=_ANSWER_MS)
            self._bounds, self._asked = (int(begins[self._place]), int(ends[self._place])), monotonic()
        return self._bounds

    def offset_at(self, time_ms: int, end: int) -> int:
        """Where the records from a time on begin (ms since 1970); ``end`` where there is none."""
        times = {self._place: max(0, time_ms)}
        found = self._consumer.offsets_for_times(times, timeout_ms=_ANSWER_MS)[self._place]
        return end if found is None else int(found.offset)

    def one(self, offset: int, until: float) -> Any | None:
        """The record at an offset; None: it is not there.

        Raises:
            TimeoutError: that could not be found out until then (s, monotonic).
        """
        begin, end = self.bounds(JUST_NOW_SECONDS)
        if not begin <= offset < end:
            return None
        passed = offset
        for records, at in self.read(offset, offset + 1, until):
            passed = at
            for record in records:
                if record.offset == offset:
                    return record
        if passed == offset:
            raise TimeoutError(f"{self._place}: offset {offset} was not read in time")
        return None

    def read(self, start: int, stop: int, until: float) -> Iterator[tuple[Sequence[Any], int]]:
        """Records from one offset to before another, piece by piece, each with the offset that comes after it.

        It ends early when time is over (s, monotonic).
        """
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, start)
        at = start
        while at < stop and monotonic() < until:
            records = poll(self._consumer, _POLL_MS).get(self._place, [])
            # an offset may be passed without a record: Kafka's own are not given
            at = self._consumer.position(self._place)
            yield [record for record in records if record.offset < stop], min(at, stop)


class ReadingThread:
    """Owns a consumer of kafka-python's, which ``connect`` makes when it is wanted first.

    The thread does not keep the process from ending: kafka-python waits for half a minute for a broker that is frozen.
    kafka-python closes idle connections only while it is used: after a pause of :data:`IDLE_MS` there is another
    consumer, because a load balancer may have dropped the connections of the first one.
    """

    def __init__(self, name: str, connect: Callable[[], Any], clock: Callable[[], float] = monotonic) -> None:
        self._connect = connect
        self._clock = clock
        self._consumer: Any = None
        self._used = 0.0
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[Any], Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    async def run(self, call: Callable[[Any], T]) -> T:
        """What ``call`` makes of the consumer. One that was given up before its turn is not made."""
        if not self._thread.is_alive():
            self._thread.start()
        done: Future[T] = Future()
        self._calls.put((done, call))
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Close the consumer, if there is one, and wait for a second at most."""
        self._calls.put(None)
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (wanted := self._calls.get()) is not None:
            done, call = wanted
            if not done.set_running_or_notify_cancel():
                continue
            try:
                if self._clock() - self._used > IDLE_MS / 1000:
                    self._end()
                if self._consumer is None:
                    self._consumer = self._connect()
                done.set_result(call(self._consumer))
            except BaseException as error:  # noqa: BLE001  (whoever waits gets it)
                done.set_exception(error)
            self._used = self._clock()
        self._end()

    def _end(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            consumer.close()
