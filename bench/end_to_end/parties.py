"""The processes at both ends: one that sends through the SDK with many threads, and one that consumes."""

import struct
import threading
import time
from itertools import count
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from bench.workload import GROUP, REAL_TOPIC
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt
from checkback.kafka.connecting import TransportName
from checkback.listener import CallableListener, LocalTransactionState
from checkback.producing.producer import TransactionProducer
from checkback.wire.protocol import Message

Times = np.ndarray[tuple[int], np.dtype[np.float64]]
_STAMP = struct.Struct(">Qd")
"""Number, and ``time.time()`` just before the call: the beginning of each value."""
LEAST_BYTES = _STAMP.size


class Sent(NamedTuple):
    """A round of sending. Times are ``time.time()``."""

    began: float
    ended: float
    """The last call has come back."""
    cpu_seconds: float


class Consumed(NamedTuple):
    """All that came until now, by number."""

    sent: Times
    arrived: Times
    again: int
    cpu_seconds: float


def send(bootstrap_servers: str, threads: int, value_bytes: int, orders: Connection) -> None:
    """For each order, a number of transactions, send so many and answer ``Sent``."""
    listener = CallableListener(lambda *_: LocalTransactionState.COMMIT, lambda _: LocalTransactionState.COMMIT)
    padding = bytes(value_bytes - LEAST_BYTES)
    first = 0
    with TransactionProducer(bootstrap_servers, GROUP, listener, transport=TransportName.CONFLUENT) as producer:
        while True:
            number: int = orders.recv()
            numbers = count(first)
            first += number

            def run(numbers: "count[int]" = numbers, end: int = first) -> None:
                while (mine := next(numbers)) < end:
                    value = _STAMP.pack(mine, time.time()) + padding
                    producer.send_in_transaction(Message(REAL_TOPIC, value, b"customer-%d" % (mine % 5000)))

            began, used = time.time(), time.process_time()
            running = [threading.Thread(target=run) for _ in range(threads)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            ended = time.time()
            producer.flush()
            orders.send(Sent(began, ended, time.process_time() - used))


def consume(bootstrap_servers: str, total: int, orders: Connection) -> None:
    """For each order, so many until now, wait until so many have come and answer ``Consumed``."""
    arrivals = _Arrivals(total)
    settings = ConsumerSettings(start_at=StartAt.FIRST)
    with PushConsumer(bootstrap_servers, "end-to-end", arrivals.note, REAL_TOPIC, settings=settings):
        while True:
            orders.send(arrivals.when(orders.recv()))


class _Arrivals:
    """Of messages, by number."""

    def __init__(self, total: int) -> None:
        self._sent = np.zeros(total)
        self._arrived = np.zeros(total)
        self._seen = self._again = 0
        self._more = threading.Condition()

    def note(self, message: ReceivedMessage) -> ConsumeResult:
        """A listener."""
        now = time.time()
        number, sent = _STAMP.unpack_from(message.value or b"")
        with self._more:
            if self._arrived[number]:
                self._again += 1
            else:
                self._sent[number], self._arrived[number] = sent, now
                self._seen += 1
                if not self._seen % 1000:
                    self._more.notify()
        return ConsumeResult.SUCCESS

    def when(self, number: int) -> Consumed:
        """As soon as so many have come."""
        with self._more:
            while self._seen < number:
                self._more.wait(0.1)
            return Consumed(self._sent.copy(), self._arrived.copy(), self._again, time.process_time())
