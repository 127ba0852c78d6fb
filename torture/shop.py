"""The producers of a fault run, one process: ``python -m torture.shop FOLDER BOOTSTRAP PREFIX TOPICS SEED``.

Every transaction writes what consumers must find into a SQLite database, with the transaction log that answers checks.
Some lose their op, some are rolled back, some hold several messages. The process may be killed at any moment.
"""

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text

from checkback import CheckEndpoint, HalfMessage, Message, Topics, TransactionProducer
from checkback.exceptions import CheckbackError
from checkback.protocol import to_base64
from checkback.transaction_log import SqlTransactionLog
from torture.ground import MORE_TOPICS

GROUP = "shop"
PER_SECOND = 60
_MORE_OFTEN = 0.2
_SENT = "CREATE TABLE IF NOT EXISTS sent (id TEXT PRIMARY KEY, topic TEXT, key BLOB, value BLOB, headers TEXT, at REAL)"


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


def open_database(folder: Path) -> Engine:
    """The shop's database; a killed process loses nothing of it."""
    engine = create_engine(f"sqlite:///{folder / 'shop.db'}", connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: Any) -> None:
        # the machine itself is not switched off in these tests, so the disk need not be waited for
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")

    SqlTransactionLog(engine).create_table()
    with engine.begin() as connection:
        connection.execute(text(_SENT))
    return engine


class Shop:
    """Sends transactions until told to stop."""

    def __init__(self, engine: Engine, producer: TransactionProducer, topics: Sequence[str], seed: int) -> None:
        self._engine = engine
        self._producer = producer
        self._topics = topics
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)
        self._log = SqlTransactionLog(engine)
        self._more: list[tuple[str, int | None]] = []

    def send_one(self) -> None:
        """One transaction, of the fate that the dice give it."""
        fate = self._chance.choices(list(_FATES), weights=list(_FATES.values()))[0]
        messages = [self._message() for _ in range(self._chance.choice((1, 1, 1, 1, 1, 1, 3)))]
        if self._more and self._chance.random() < _MORE_OFTEN:
            topic, partition = self._chance.choice(self._more)
            messages[0] = messages[0]._replace(topic=topic, partition=partition)
        if len(messages) == 1:
            topic, value, key, headers, partition = messages[0]
            half = self._producer.prepare(topic, value, key, headers, partition)
        else:
            half = self._producer.prepare_several(messages)
        if fate not in {Fate.ROLLED_BACK, Fate.NEITHER}:
            with self._engine.begin() as connection:
                self._log.record(connection, half.transaction_id)
                self._insert(connection, half, messages)
        if fate is Fate.COMMITTED:
            self._producer.commit(half)
        elif fate is Fate.ROLLED_BACK:
            self._producer.rollback(half)

    def hear(self, more: Sequence[tuple[str, int | None]]) -> None:
        """Topics, and partitions, that some messages go to from now on."""
        self._more = list(more)

    def _message(self) -> Message:
        chance = self._chance
        key = chance.choice((None, b"", b"\x00\xff", b"customer-%d" % chance.randrange(20)))
        # a tombstone needs a key
        value = None if key is not None and chance.random() < 0.05 else chance.randbytes(chance.randrange(400))
        headers = [(chance.choice(("trace", "type", "trace")), chance.randbytes(8)) for _ in range(chance.randrange(4))]
        return Message(chance.choice(self._topics), value, key, headers)

    def _insert(self, connection: Connection, half: HalfMessage, messages: Sequence[Message]) -> None:
        several = len(messages) > 1
        for number, message in enumerate(messages, start=1):
            row = {
                "id": f"{half.transaction_id}#{number}" if several else half.transaction_id,
                "topic": message.topic,
                "key": message.key,
                "value": message.value,
                "headers": json.dumps([[name, to_base64(value)] for name, value in message.headers]),
                "at": time.time(),
            }
            connection.execute(text("INSERT INTO sent VALUES (:id, :topic, :key, :value, :headers, :at)"), row)


def _more_topics(folder: Path) -> list[tuple[str, int | None]]:
    try:
        return [(topic, partition) for topic, partition in json.loads((folder / MORE_TOPICS).read_bytes())]
    except FileNotFoundError:
        return []


def main(folder: str, bootstrap_servers: str, prefix: str, topics: str, seed: str) -> None:
    """Serve checks and send until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    engine = open_database(Path(folder))
    log = SqlTransactionLog(engine)
    ours = Topics(prefix)
    with (
        CheckEndpoint(bootstrap_servers, GROUP, log, topics=ours),
        TransactionProducer(bootstrap_servers, GROUP, topics=ours, transport="confluent-kafka") as producer,
    ):
        shop = Shop(engine, producer, topics.split(","), int(seed))
        while not stopping.wait(1 / PER_SECOND):
            shop.hear(_more_topics(Path(folder)))
            try:
                shop.send_one()
            except CheckbackError as error:  # the broker is away: the transaction was not run, or a check decides it
                print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
        (Path(folder) / "sending.stopped").touch()
        # It has stopped sending; it goes on answering checks until it is killed.
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
