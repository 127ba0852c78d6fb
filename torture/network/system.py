"""The running system of a fault run with the network: producers that deliver themselves, and a reader. No job."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Self

from checkback import Message, TransactionProducer
from checkback.exceptions import CheckbackError
from torture.consumer import Consuming
from torture.ground import REAL_PARTITIONS, REAL_TOPICS, Ground
from torture.network.books import Books, Told
from torture.network.proxy import KafkaProxy
from torture.oracle import Judgement
from torture.waiting import wait_until, wait_while_less_is_missing

GROUP = "network"
_PRODUCERS, _SELLERS = 2, 4
"""Sellers are threads, which share a producer."""
_TOLD_SECONDS = 60.0
_READABLE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_ROLLED_BACK_OFTEN = 0.1


class NetworkSystem:
    """Producers reach Kafka through the proxy; the reader does not."""

    def __init__(self, ground: Ground, proxy: KafkaProxy, seed: int) -> None:
        self.proxy = proxy
        self.books = Books()
        self.stops: list[str] = []
        self._ground = ground
        self._consuming = Consuming(ground.servers, REAL_TOPICS, REAL_PARTITIONS)
        self._stopping = threading.Event()
        self._seed = seed
        self._sellers: list[_Seller] = []
        self._open = ExitStack()
        self._come = 0
        """So many of the delivered messages were found to be readable."""

    def __enter__(self) -> Self:
        log = logging.FileHandler(self._ground.folder / "producers.log")
        log.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        logger = logging.getLogger("checkback")
        logger.addHandler(log)
        self._open.callback(log.close)
        self._open.callback(logger.removeHandler, log)
        self._consuming.start()
        self._open.callback(self._consuming.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._open.close()

    def begin(self, seconds: float) -> None:
        """See :class:`~torture.lanes.rounds.FaultySystem`."""
        for number in range(_PRODUCERS):
            producer = TransactionProducer(
                self.proxy.address, GROUP, transport="confluent-kafka", delivery="direct", topics=self._ground.topics
            )
            self._open.enter_context(producer)
            for place in range(_SELLERS):
                chance = random.Random(f"{self._seed}-{number}-{place}")  # noqa: S311  (dice, no secret)
                self._sellers.append(_Seller(producer, self.books, chance, self._stopping))
        for seller in self._sellers:
            seller.start()
        self.wait_until(lambda: bool(self._consuming.found()), seconds, "nothing was delivered")

    def wait_until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Raises NotRecoveredError when it does not hold in time."""
        wait_until(holds, seconds, otherwise, lambda: None)

    def wait_for_all(self) -> float:
        """Wait until all that producers were told is delivered can be read; gives the seconds that it took.

        Raises:
            NotRecoveredError: some of it cannot, after a minute.
        """
        began = time.monotonic()
        names = self.books.delivered(self._come)
        self.wait_until(
            lambda: all(self._consuming.came(name) is not None for name in names),
            *(_READABLE_SECONDS, f"not all of {len(names)} delivered messages could be read"),
        )
        self._come += len(names)
        return time.monotonic() - began

    def judge(self) -> Judgement:
        """See :class:`~torture.lanes.rounds.FaultySystem`."""
        readable = self._consuming.found()  # first: what is delivered after that may not have come yet
        return self.books.judge(readable)

    def harmed(self, judged: Judgement) -> bool:
        """See :class:`~torture.lanes.rounds.FaultySystem`."""
        return bool(judged.repeated or judged.leaked or judged.changed)

    def come_to_rest(self) -> Judgement:
        """See :class:`~torture.lanes.rounds.FaultySystem`."""
        self._stop()
        wait_while_less_is_missing(lambda: (len(self.judge().lost),), _READABLE_SECONDS, lambda: None)
        self.wait_until(self._consuming.at_end, _READABLE_SECONDS, "the reader did not reach the end")
        return self.judge()

    def rejected(self) -> Mapping[str, int]:
        """No job rejects anything."""
        return {}

    def torn(self) -> list[str]:
        """See :meth:`~torture.network.books.Books.torn`."""
        return self.books.torn(self._consuming.found())

    def _stop(self) -> None:
        self._stopping.set()
        for seller in self._sellers:
            seller.join()


class _Seller(threading.Thread):
    """Sends one transaction after another, and waits for what becomes of each."""

    def __init__(
        self, producer: TransactionProducer, books: Books, chance: random.Random, stopping: threading.Event
    ) -> None:
        super().__init__(name="torture-seller", daemon=True)
        self._producer = producer
        self._books = books
        self._chance = chance
        self._stopping = stopping

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._send()
            except CheckbackError as error:  # the half message was not acknowledged: the application does not begin
                self._books.errors[type(error).__name__] += 1
                self._stopping.wait(_PAUSE_SECONDS)

    def _send(self) -> None:
        messages = [self._message() for _ in range(self._chance.choice((1, 1, 2, 3)))]
        producer = self._producer
        half = producer.prepare(messages[0]) if len(messages) == 1 else producer.prepare_several(messages)
        self._books.begin(half.transaction_id, messages)
        if self._chance.random() < _ROLLED_BACK_OFTEN:
            producer.rollback(half)
            self._books.end(half.transaction_id, Told.ROLLED_BACK)
            return
        delivery = producer.end(half, None)
        told = Told.UNKNOWN
        if delivery is not None and delivery.delivered(_TOLD_SECONDS):
            told = Told.DELIVERED
        elif delivery is None or delivery.left_to_job:
            told = Told.LEFT_TO_JOB
        self._books.end(half.transaction_id, told)

    def _message(self) -> Message:
        key = self._chance.choice((None, b"customer-%d" % self._chance.randrange(20)))
        return Message(self._chance.choice(REAL_TOPICS), self._chance.randbytes(self._chance.randrange(1, 200)), key)
