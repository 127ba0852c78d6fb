"""A thread that reads from Kafka for one loop: call after call, and nobody waits for one that does not come back."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from checkback.kafka.reaching import IDLE_MS

T = TypeVar("T")
_CLOSE_SECONDS = 1.0


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
