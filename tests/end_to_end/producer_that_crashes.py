"""Producer processes, each of which kills itself at one step of one transaction.

``python -m tests.end_to_end.producer_that_crashes BOOTSTRAP PREFIX TOPIC DATABASE MESSAGES ...`` forks one for each
step and each number of messages, and prints how each ended.
"""

import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import KafkaProducer

from checkback import CheckRequest, HalfMessage, LocalTransactionState, Message, Topics, TransactionProducer

GROUP = "crashing"
AT_ONCE = 4
"""Processes: the job runs beside them."""


class Step(StrEnum):
    """Where the process dies, in the order in which it gets there."""

    HALF_UNDER_WAY = "half message sent and not acknowledged"
    AFTER_HALF = "after the half message"
    IN_TRANSACTION = "in the local transaction"
    AFTER_COMMIT = "after its commit"
    BEFORE_OP = "before the op"
    OP_UNDER_WAY = "op sent and not acknowledged"
    AFTER_OP = "after the op"
    NEVER = "never"


COMMITTED = frozenset({Step.AFTER_COMMIT, Step.BEFORE_OP, Step.OP_UNDER_WAY, Step.AFTER_OP, Step.NEVER})


def body(step: Step, number: int, count: int) -> bytes:
    """Value of a message: where its process dies, and which of its transaction's messages it is."""
    return f"{step}, {number} of {count}".encode()


class Database:
    """The group's database: a row for each message that was really sent, under the name it is delivered with."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def create(self) -> None:
        with closing(self._connect()) as connection, connection:
            connection.execute("CREATE TABLE sent (id TEXT PRIMARY KEY, tx TEXT, step TEXT, value BLOB)")

    def insert(self, message: HalfMessage, step: Step, die: "Death") -> None:
        several = enumerate(message.messages, 1)
        rows = [(f"{message.transaction_id}#{number}", one.value) for number, one in several]
        with closing(self._connect()) as connection, connection:
            for name, value in rows or [(message.transaction_id, message.value)]:
                connection.execute("INSERT INTO sent VALUES (?, ?, ?, ?)", (name, message.transaction_id, step, value))
            die.at(Step.IN_TRANSACTION)

    def holds(self, transaction_id: str) -> bool:
        with closing(self._connect()) as connection:
            return bool(connection.execute("SELECT 1 FROM sent WHERE tx = ?", (transaction_id,)).fetchone())

    def sent(self) -> list[tuple[str, Step, bytes]]:
        with closing(self._connect()) as connection:
            rows = connection.execute("SELECT id, step, value FROM sent").fetchall()
        return [(name, Step(step), value) for name, step, value in rows]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=30)


class Death:
    """Comes at one step, as ``kill -9`` does: nothing is closed, flushed or handled."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def at(self, step: Step) -> None:
        if step is self._step:
            os.kill(os.getpid(), signal.SIGKILL)


class Listener:
    """The service: one database transaction, and nothing else to go by when asked."""

    def __init__(self, database: Database, step: Step = Step.NEVER) -> None:
        self._database, self._step, self._death = database, step, Death(step)
        self.asked: list[CheckRequest] = []

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        self._death.at(Step.AFTER_HALF)
        self._database.insert(message, self._step, self._death)
        self._death.at(Step.AFTER_COMMIT)
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request)
        found = self._database.holds(request.transaction_id)
        return LocalTransactionState.COMMIT if found else LocalTransactionState.ROLLBACK


def dying_send(topics: Topics, death: Death) -> Any:
    """``KafkaProducer.send``, with a death before and after: the producer itself is the one that applications use."""
    send = KafkaProducer.send

    def wrapped(kafka: KafkaProducer, topic: str, *args: Any, **options: Any) -> Any:
        if topic == topics.half:
            future = send(kafka, topic, *args, **options)
            death.at(Step.HALF_UNDER_WAY)
            return future
        death.at(Step.BEFORE_OP)
        future = send(kafka, topic, *args, **options)
        death.at(Step.OP_UNDER_WAY)
        future.get(timeout=10)
        death.at(Step.AFTER_OP)
        return future

    return wrapped


def send(place: Sequence[str], step: Step, count: int) -> None:
    bootstrap_servers, prefix, topic, database = place
    topics = Topics(prefix)
    messages = [Message(topic, body(step, number, count), b"key") for number in range(1, count + 1)]
    listener = Listener(Database(Path(database)), step)
    with (
        patch.object(KafkaProducer, "send", dying_send(topics, Death(step))),
        TransactionProducer(bootstrap_servers, GROUP, listener, topics=topics) as producer,
    ):
        if count == 1:
            producer.send_in_transaction(Message(topic, messages[0].value, messages[0].key))
        else:
            transaction = producer.begin()
            for message in messages:
                transaction.add(Message(message.topic, message.value, message.key))
            transaction.send()


def in_a_process(place: Sequence[str], step: Step, count: int) -> int:
    """Its id. It is forked before there is a client, and so before there is a thread."""
    child = os.fork()
    if child == 0:
        try:
            send(place, step, count)
        except BaseException:  # noqa: BLE001  (whatever it is, this process must not go on as the other one)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def main(place: Sequence[str], counts: Sequence[int]) -> None:
    cases = list(product(Step, counts))
    for first in range(0, len(cases), AT_ONCE):
        children = [in_a_process(place, *case) for case in cases[first : first + AT_ONCE]]
        for (step, count), child in zip(cases[first:], children, strict=False):
            _, status = os.waitpid(child, 0)
            print(step, count, os.waitstatus_to_exitcode(status), sep="\t")  # noqa: T201  (that is its answer)


if __name__ == "__main__":
    main(sys.argv[1:5], [int(count) for count in sys.argv[5:]])
