"""The producer of a fault run with consumers, one process: ``python -m torture.effects.shop FOLDER BOOTSTRAP SEED``.

Orders are committed by transactional half messages; some are rolled back, some lose their op, some have neither, so
that the check decides. Each goes to a partition that is drawn, so that a run sees each partition go on.
"""

import random
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from checkback import CheckEndpoint, Message, TransactionProducer
from checkback.exceptions import CheckbackError
from torture.effects.orders import PARTITIONS, TOPIC, Order, draw
from torture.sent import Database

GROUP = "shop"
STOPPED = "sending.stopped"
_PER_SECOND = 20
_PARTITIONS, _WANTED, _SENT = "partitions", "wanted-order", "wanted-order.sent"
_COMMITTED, _ROLLED_BACK, _WITHOUT_OP, _NEITHER = 0.84, 0.06, 0.05, 0.05


def grow(folder: Path, partitions: int) -> None:
    """Have it send to so many partitions."""
    _write(folder / _PARTITIONS, str(partitions).encode())


def want(folder: Path, order: Order) -> None:
    """Have it send one order of this kind."""
    (folder / _SENT).unlink(missing_ok=True)
    _write(folder / _WANTED, order.value)


def wanted_id(folder: Path) -> str:
    """The id of that order; empty: it has not been committed yet."""
    with suppress(FileNotFoundError):
        return (folder / _SENT).read_text(encoding="utf-8")
    return ""


class Shop:
    """Sends transactions until told to stop."""

    def __init__(self, folder: Path, database: Database, producer: TransactionProducer, seed: int) -> None:
        self._folder = folder
        self._database = database
        self._producer = producer
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)

    def send_one(self) -> None:
        """The order that is wanted, or one of the usual, of the fate that the dice give it."""
        with suppress(FileNotFoundError):
            self._send(Order.of((self._folder / _WANTED).read_bytes()), committed=True, op=True)
            (self._folder / _WANTED).unlink()
        fates = ((True, True), (False, True), (True, False), (False, False))
        weights = (_COMMITTED, _ROLLED_BACK, _WITHOUT_OP, _NEITHER)
        committed, op = self._chance.choices(fates, weights)[0]
        self._send(draw(self._chance), committed=committed, op=op)

    def _send(self, order: Order, *, committed: bool, op: bool) -> None:
        partition = self._chance.randrange(self._partitions)
        key = b"customer-%d" % self._chance.randrange(20)
        message = Message(TOPIC, order.value, key, partition=partition)
        half = self._producer.prepare(Message(TOPIC, order.value, key, partition=partition))
        if committed:
            self._database.commit(half, [message])
            if order.deaths:
                _write(self._folder / _SENT, half.transaction_id.encode())
        if op:
            (self._producer.commit if committed else self._producer.rollback)(half)

    @property
    def _partitions(self) -> int:
        with suppress(FileNotFoundError):
            return int((self._folder / _PARTITIONS).read_bytes())
        return PARTITIONS


def _write(file: Path, content: bytes) -> None:
    draft = file.with_suffix(".draft")
    draft.write_bytes(content)
    draft.rename(file)


def main(folder: str, bootstrap_servers: str, seed: str) -> None:
    """Serve checks and send until SIGTERM; serve checks until killed."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = Database(Path(folder), GROUP)
    with (
        CheckEndpoint(bootstrap_servers, GROUP, database.log),
        TransactionProducer(bootstrap_servers, GROUP, transport="confluent-kafka") as producer,
    ):
        shop = Shop(Path(folder), database, producer, int(seed))
        while not stopping.wait(1 / _PER_SECOND):
            try:
                shop.send_one()
            except CheckbackError as error:  # the broker is away: the transaction was not run, or a check decides it
                print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
        (Path(folder) / STOPPED).touch()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
