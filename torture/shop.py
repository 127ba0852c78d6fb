"""The producers of a fault run, one process: ``python -m torture.shop FOLDER BOOTSTRAP PREFIX TOPICS SEED
DATABASE SYNCHRONOUS``, of which the last two are the database's folder and whether it waits for its disk.

Every transaction writes what consumers must find into a database (``torture/sent.py``), whose log answers checks.
Some lose their op, some are rolled back, some hold several messages, some are large. The process may be killed at any
moment.
"""

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from checkback import CheckEndpoint, HalfMessage, Message, Topics, TransactionProducer
from checkback.exceptions import CheckbackError
from torture.ground import MORE_TOPICS
from torture.sent import Database

GROUP = "shop"
STOPPED = "sending.stopped"
PER_SECOND = 60
RATE = "TORTURE_PER_SECOND"
"""A variable: how many transactions a second there are, where not so many."""
PAUSED = "sending.paused"
"""A file: the job is far behind, on a slow machine, and gets no more to do meanwhile."""
_MORE_OFTEN = 0.2
_LARGE_OFTEN = 0.015
LEAST_LARGE_BYTES = 100_000
MOST_LARGE_BYTES = 900_000
"""Of one large half message's values; below Kafka's own limit of a record, 1 MB."""


class Fate(StrEnum):
    """What becomes of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    COMMITTED_WITHOUT_OP = "committed, the op is never written"
    NEITHER = "neither committed nor an op"


_FATES = {
    Fate.COMMITTED: 0.75,
    Fate.ROLLED_BACK: 0.1,
    Fate.COMMITTED_WITHOUT_OP: 0.1,
    Fate.NEITHER: 0.05,
}


def large_sizes(chance: random.Random, messages: int) -> list[int]:
    """Bytes of each value of one large half message: together 100 to 900 KB, or what fits into it as base64."""
    most = MOST_LARGE_BYTES if messages == 1 else MOST_LARGE_BYTES * 3 // 4
    return [chance.randint(LEAST_LARGE_BYTES, most) // messages for _ in range(messages)]


class Producing(Protocol):
    """What a shop sends with: the SDK's producer, or what does the same through a gateway."""

    def prepare(self, message: Message) -> HalfMessage:
        """Write a half message."""

    def prepare_several(self, messages: Sequence[Message]) -> HalfMessage:
        """Write one of several messages."""

    def commit(self, half: HalfMessage) -> object:
        """Have it delivered."""

    def rollback(self, half: HalfMessage) -> object:
        """Have it not delivered."""


class Shop:
    """Sends transactions until told to stop."""

    numbers: Sequence[int] = (1, 1, 1, 1, 1, 1, 3)
    """How many messages one has: the dice take one of these."""

    def __init__(self, database: Database, producer: Producing, topics: Sequence[str], seed: int) -> None:
        self._database = database
        self._producer = producer
        self._topics = topics
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)
        self._more: list[tuple[str, int | None]] = []

    def send_one(self) -> None:
        """One transaction, of the fate that the dice give it."""
        fate = self._chance.choices(list(_FATES), weights=list(_FATES.values()))[0]
        messages = [self._message() for _ in range(self._chance.choice(self.numbers))]
        if self._chance.random() < _LARGE_OFTEN:
            sizes = large_sizes(self._chance, len(messages))
            values = [self._chance.randbytes(size) for size in sizes]
            messages = [message._replace(value=value) for message, value in zip(messages, values, strict=True)]
        if self._more and self._chance.random() < _MORE_OFTEN:
            topic, partition = self._chance.choice(self._more)
            messages[0] = messages[0]._replace(topic=topic, partition=partition)
        half = self._prepare(messages)
        if fate not in {Fate.ROLLED_BACK, Fate.NEITHER}:
            self._database.commit(half, messages)
        if fate is Fate.COMMITTED:
            self._producer.commit(half)
        elif fate is Fate.ROLLED_BACK:
            self._producer.rollback(half)

    def hear(self, more: Sequence[tuple[str, int | None]]) -> None:
        """Topics, and partitions, that some messages go to from now on."""
        self._more = list(more)

    def _prepare(self, messages: Sequence[Message]) -> HalfMessage:
        return self._producer.prepare(messages[0]) if len(messages) == 1 else self._producer.prepare_several(messages)

    def _message(self) -> Message:
        chance = self._chance
        key = chance.choice((None, b"", b"\x00\xff", b"customer-%d" % chance.randrange(20)))
        # a tombstone needs a key
        value = None if key is not None and chance.random() < 0.05 else chance.randbytes(chance.randrange(400))
        headers = [(chance.choice(("trace", "type", "trace")), chance.randbytes(8)) for _ in range(chance.randrange(4))]
        return Message(chance.choice(self._topics), value, key, headers)


def _more_topics(folder: Path) -> list[tuple[str, int | None]]:
    try:
        return [(topic, partition) for topic, partition in json.loads((folder / MORE_TOPICS).read_bytes())]
    except FileNotFoundError:
        return []


def main(
    folder: str, bootstrap_servers: str, prefix: str, topics: str, seed: str, database_folder: str, synchronous: str
) -> None:
    """Serve checks and send until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = Database(Path(database_folder), GROUP, synchronous)
    ours = Topics(prefix)
    with (
        CheckEndpoint(bootstrap_servers, GROUP, database.log, topics=ours),
        TransactionProducer(bootstrap_servers, GROUP, topics=ours, transport="confluent-kafka") as producer,
    ):
        shop = Shop(database, producer, topics.split(","), int(seed))
        pause_seconds = 1 / int(os.environ.get(RATE, PER_SECOND))
        while not stopping.wait(pause_seconds):
            if (Path(folder) / PAUSED).exists():
                continue
            shop.hear(_more_topics(Path(folder)))
            try:
                shop.send_one()
            except CheckbackError as error:  # the broker is away: the transaction was not run, or a check decides it
                print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
        (Path(folder) / STOPPED).touch()
        # It has stopped sending; it continues answering checks until it is killed.
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
