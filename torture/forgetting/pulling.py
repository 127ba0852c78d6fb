"""A pull reader of a fault run, one process: ``python -m torture.forgetting.pulling FOLDER BOOTSTRAP NAME``.

It reads every partition, and keeps where it is in the database in which it notes what it got. It may be killed at any
moment. Exit status 1 when it ended by itself.
"""

import signal
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

from checkback.consumer import PullConsumer
from checkback.exceptions import CheckbackError
from torture.effects.orders import TOPIC, Order

_WAIT_MS = 50
_AT_ONCE = 500
_PAUSE_SECONDS = 0.5
_TABLES = (
    "CREATE TABLE IF NOT EXISTS pulled (id TEXT)",
    "CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, offset INTEGER)",
)


def database(folder: Path, name: str) -> sqlite3.Connection:
    """What the reader of this name has got."""
    connection = sqlite3.connect(folder / f"pulled-{name}.db", timeout=60)
    for table in _TABLES:
        connection.execute(table)
    return connection


def read_once(consumer: PullConsumer, connection: sqlite3.Connection) -> None:
    """What there is in each partition, up to a number of messages."""
    offsets = dict(connection.execute("SELECT partition, offset FROM positions").fetchall())
    for partition in consumer.partitions(TOPIC):
        before = offsets.get(partition, 0)
        result = consumer.pull(TOPIC, partition, before, _AT_ONCE, wait_ms=_WAIT_MS)
        if result.next_offset == before:
            continue
        ids = [(Order.of(message.value).name or message.id,) for message in result.messages]
        with connection:
            connection.executemany("INSERT INTO pulled VALUES (?)", ids)
            connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, result.next_offset))


def main(folder: str, bootstrap_servers: str, name: str) -> None:
    """Read until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    with closing(database(Path(folder), name)) as connection:
        while not stopping.is_set():
            try:
                with PullConsumer(bootstrap_servers) as consumer:
                    while not stopping.wait(_WAIT_MS / 1000):
                        read_once(consumer, connection)
            except CheckbackError as error:
                print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
                if not error.retriable:
                    sys.exit(1)
                stopping.wait(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
