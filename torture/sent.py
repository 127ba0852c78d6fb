"""What producers have sent, as their own database says: a SQLite file, with the transaction log that answers checks.

A transaction's messages are written in the local transaction, so that what was committed there must be delivered, and
nothing else.
"""

import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event, text

from checkback import HalfMessage, Message
from checkback.sql.transaction_log import SqlTransactionLog
from checkback.wire.message_json import from_base64, to_base64
from torture.oracle import Body, imprint

_LOCKED_SECONDS = 300
"""Another process may be stopped while it writes, until others have answered for it."""
_SENT = "CREATE TABLE IF NOT EXISTS sent (id TEXT PRIMARY KEY, topic TEXT, key BLOB, value BLOB, headers TEXT, at REAL)"


class Database:
    """One process writes to it, the harness reads it; a killed process loses nothing of it. ``name`` is the file's.

    ``synchronous`` is SQLite's: FULL waits for the disk with each commit, and only that outlives a loss of power.
    """

    def __init__(self, folder: Path, name: str, synchronous: str = "OFF") -> None:
        self._engine = create_engine(f"sqlite:///{folder / f'{name}.db'}", connect_args={"timeout": _LOCKED_SECONDS})

        @event.listens_for(self._engine, "connect")
        def _settings(connection: Any, _record: Any) -> None:
            # where the machine itself is not switched off, the disk need not be waited for
            connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};")

        self.log = SqlTransactionLog(self._engine)
        """Answers checks of these transactions."""
        self.log.create_table()
        with self._engine.begin() as connection:
            connection.execute(text(_SENT))

    def commit(self, half: HalfMessage, messages: Sequence[Message]) -> None:
        """The local transaction: note that it commits, and its messages as sent.

        Raises:
            CheckbackError: a check has answered *rollback* already; nothing was written.
        """
        names = self.names(half.transaction_id, messages)
        with self._engine.begin() as connection:
            self.log.record(connection, half.transaction_id)
            for name, message in zip(names, messages, strict=True):
                _insert(connection, name, message)

    def names(self, transaction_id: str, messages: Sequence[Message]) -> list[str]:
        """What a transaction's messages are named where consumers get them."""
        if len(messages) == 1:
            return [transaction_id]
        return [f"{transaction_id}#{number}" for number in range(1, len(messages) + 1)]

    def sent_to(self, topics: Collection[str]) -> dict[str, Body]:
        """All that was sent to these topics, by message id."""
        with self._engine.connect() as connection:
            rows = connection.execute(text("SELECT id, topic, key, value, headers FROM sent"))
            return {row.id: body_of(row, row.key) for row in rows if row.topic in topics}

    def ids_of(self, topics: Collection[str]) -> list[str]:
        """Ids of all messages that were sent to these topics."""
        with self._engine.connect() as connection:
            rows = connection.execute(text("SELECT id, topic FROM sent"))
            return [name for name, topic in rows if topic in topics]

    def sent_after(self, moment: float, most: int) -> list[str]:
        """Ids of some messages that were sent after a moment (``time.time()``, s)."""
        query = text("SELECT id FROM sent WHERE at > :after LIMIT :most")
        with self._engine.connect() as connection:
            return [name for (name,) in connection.execute(query, {"after": moment, "most": most})]

    def close(self) -> None:
        """Close its connections; whoever asks it again has others."""
        self._engine.dispose()


def row_of(name: str, message: Message) -> dict[str, Any]:
    """A message as it is kept, sent now."""
    return {
        "id": name,
        "topic": message.topic,
        "key": message.key,
        "value": imprint(message.value),
        "headers": json.dumps([[header, to_base64(value)] for header, value in message.headers]),
        "at": time.time(),
    }


def body_of(row: Any, key: bytes | None) -> Body:
    """What consumers must find of such a row."""
    headers = tuple((name, from_base64(value)) for name, value in json.loads(row.headers))
    return Body(row.topic, key, row.value, headers)


def _insert(connection: Connection, name: str, message: Message) -> None:
    connection.execute(
        text("INSERT INTO sent VALUES (:id, :topic, :key, :value, :headers, :at)"), row_of(name, message)
    )
