"""A producer of a fault run with lanes: ``python -m torture.lanes.producer`` with the arguments of :func:`main`.

With the delivery ``none`` it sends nothing, and answers for the others.
It may be killed, or stopped and continued, at any step. SIGTERM ends the sending.
"""

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import time_ns
from typing import Any

from checkback import CheckEndpoint, HalfMessage, Message, Topics, TransactionOptions, TransactionProducer
from checkback.exceptions import CheckbackError
from torture import shop
from torture.effects.strike import Watch
from torture.lanes.watched import watch_lanes
from torture.sent import Database

GROUP = "lanes"
NONE = "none"
PER_SECOND = 15
_LATER_OFTEN = 0.02
_LATER_MS = 1_500


def stopped_mark(folder: Path, pid: int) -> Path:
    """A file: this process sends no more."""
    return folder / f"stopped-{pid}"


def sender_header(pid: int) -> str:
    """The name of a header that all messages of this process have."""
    return f"sent-by-{pid}"


class WholeBooks(Database):
    """A process that is stopped (SIGSTOP) must not hold the lock that all have to wait for."""

    def __init__(self, folder: Path, name: str, whole: AbstractContextManager[Any]) -> None:
        super().__init__(folder, name)
        self._whole = whole

    def commit(self, half: HalfMessage, messages: Sequence[Message]) -> None:
        """See :class:`~torture.sent.Database`."""
        with self._whole:
            super().commit(half, messages)

    def check_local_transaction(self, request: Any) -> Any:
        """For the endpoint."""
        with self._whole:
            return self.log.check_local_transaction(request)


class _LaneShop(shop.Shop):
    """Some are for later, so that the job delivers them whatever the mode; all say who has sent them."""

    def __init__(self, books: Database, producer: TransactionProducer, topics: Sequence[str], seed: int) -> None:
        super().__init__(books, producer, topics, seed)
        self._sdk = producer
        self._later = random.Random(seed + 1)  # noqa: S311  (dice, no secret)
        self._header = (sender_header(os.getpid()), b"")

    def _message(self) -> Message:
        message = super()._message()
        return message._replace(headers=[*message.headers, self._header])

    def _prepare(self, messages: Sequence[Message]) -> HalfMessage:
        options = None
        if self._later.random() < _LATER_OFTEN:
            options = TransactionOptions(deliver_at_ms=time_ns() // 1_000_000 + _LATER_MS)
        if len(messages) == 1:
            return self._sdk.prepare(messages[0], options=options)
        return self._sdk.prepare_several(messages, options=options)


def main(folder: str, servers: str, prefix: str, topics: str, seed: str, name: str, delivery: str) -> None:
    """Serve checks and send until SIGTERM; then serve checks."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    place, whole = Path(folder), threading.RLock()
    books = WholeBooks(place, GROUP, whole)
    watch_lanes(Watch(place, name, whole))
    ours = Topics(prefix)
    with CheckEndpoint(servers, GROUP, books, topics=ours):
        if delivery != NONE:
            with TransactionProducer(
                servers, GROUP, topics=ours, transport="confluent-kafka", delivery=delivery
            ) as producer:
                send(_LaneShop(books, producer, topics.split(","), int(seed)), place, stopping)
        stopped_mark(place, os.getpid()).touch()
        threading.Event().wait()


def send(sender: shop.Shop, folder: Path, stopping: threading.Event, per_second: float = PER_SECOND) -> None:
    """Send until told to stop."""
    while not stopping.wait(1 / per_second):
        if (folder / shop.PAUSED).exists():
            continue
        try:
            sender.send_one()
        except CheckbackError as error:  # the broker is away: the transaction was not run, or a check decides it
            print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)


if __name__ == "__main__":
    main(*sys.argv[1:])
