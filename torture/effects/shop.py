"""The producer of a fault run with consumers: ``python -m torture.effects.shop FOLDER BOOTSTRAP SEED [plain]``.

Orders are committed by transactional half messages; some are rolled back, some lose their op, some have neither, so
that the check decides. Each goes to a partition that is drawn, so that a run sees each partition go on. ``plain``: a
tenth is written by a producer of nobody's, past the job, without a ``cb-id``.
"""

import random
import signal
import sys
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

from checkback import CheckEndpoint, HalfMessage, Message, TransactionProducer
from checkback.exceptions import CheckbackError
from checkback.wire.protocol import HalfPosition
from torture.effects.orders import PARTITIONS, TOPIC, Order, draw
from torture.sent import Database
from torture.shop import PAUSED

GROUP = "shop"
STOPPED = "sending.stopped"
PLAIN = "plain"
"""How the names of orders begin that are written past the job."""
_PER_SECOND = 20
_PARTITIONS, _WANTED, _SENT = "partitions", "wanted-order", "wanted-order.sent"
_COMMITTED, _ROLLED_BACK, _WITHOUT_OP, _NEITHER = 0.84, 0.06, 0.05, 0.05
_PLAIN_OFTEN = 0.1
_PLAIN_SECONDS = 10.0


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
        partition = self._chance.randrange(self.partitions)
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
    def partitions(self) -> int:
        """How many it sends to."""
        with suppress(FileNotFoundError):
            return int((self._folder / _PARTITIONS).read_bytes())
        return PARTITIONS


class PlainShop:
    """Writes orders past the job. One that is not acknowledged in time is in no database, be it there or not."""

    def __init__(self, bootstrap_servers: str, database: Database, seed: int) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            # tried once: an idempotent client ends for good where a topic has lost its end, another one may double
            "retries": 0,
            "message.timeout.ms": int(_PLAIN_SECONDS * 1000),
            "log_level": 0,
        }
        self._database = database
        self._chance = random.Random(seed)  # noqa: S311  (dice, no secret)
        self._producer = Producer(self._settings)

    def send_some(self, partitions: int) -> None:
        """One order, now and then."""
        if self._chance.random() >= _PLAIN_OFTEN:
            return
        name = f"{PLAIN}-{uuid.uuid4().hex}"
        value, partition, failed = Order(name=name).value, self._chance.randrange(partitions), []
        self._producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: failed.append(error))
        # not compared: a KafkaError beside what is not a number leaves an error for whoever calls C next
        if self._producer.flush(_PLAIN_SECONDS) or not failed or any(failed):
            self._producer.purge()
            self._producer = Producer(self._settings)
            return
        half = HalfMessage(name, TOPIC, value, None, (), HalfPosition(0, 0))
        self._database.commit(half, [Message(TOPIC, value, partition=partition)])


def _write(file: Path, content: bytes) -> None:
    draft = file.with_suffix(".draft")
    draft.write_bytes(content)
    draft.rename(file)


def main(folder: str, bootstrap_servers: str, seed: str, plain: str = "") -> None:
    """Serve checks and send until SIGTERM; serve checks until killed."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    database = Database(Path(folder), GROUP)
    with (
        CheckEndpoint(bootstrap_servers, GROUP, database.log),
        TransactionProducer(bootstrap_servers, GROUP, transport="confluent-kafka") as producer,
    ):
        shop = Shop(Path(folder), database, producer, int(seed))
        past_job = PlainShop(bootstrap_servers, database, int(seed)) if plain else None
        while not stopping.wait(1 / _PER_SECOND):
            if (Path(folder) / PAUSED).exists():
                continue
            try:
                shop.send_one()
                if past_job is not None:
                    past_job.send_some(shop.partitions)
            except CheckbackError as error:  # the broker is away: the transaction was not run, or a check decides it
                print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201  (into the log of this process)
        (Path(folder) / STOPPED).touch()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
