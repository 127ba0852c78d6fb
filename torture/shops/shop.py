"""A shop of a fault run: ``python -m torture.shops.shop FOLDER BOOTSTRAP KIND sells|answers SEED``.

The environment says where its database is. Each order is a row there, committed with its message by Checkback's own
block; checks are answered by the transaction log. It may be killed, or stopped, at any step. SIGTERM ends the selling.
"""

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from checkback import CheckEndpoint, Message, Rollback, TransactionProducer
from checkback.kafka.connecting import TransportName
from torture.effects import orders
from torture.effects.strike import Watch
from torture.ground import REAL_TOPICS
from torture.shop import PAUSED
from torture.shops.fates import Fate, come_late, draw, linger, spoiler
from torture.shops.kinds import DEFECTS_FILE, SELLS, URL, Kind, outcomes_file
from torture.shops.orders import INSERT, values_of
from torture.shops.selling import PlainSeller, Sale, Seller, SqlSeller, Watching, watch_producer
from torture.shops.steps import Step

TOPICS = (REAL_TOPICS[0], orders.TOPIC)
PER_SECOND = 20
_THREADS = 8
_TRANSPORTS = {
    Kind.SQL_MARIADB: TransportName.CONFLUENT,
    Kind.SQL_POSTGRESQL: TransportName.CONFLUENT,
    Kind.PLAIN_MARIADB: TransportName.KAFKA_PYTHON,
    Kind.DJANGO_POSTGRESQL: TransportName.KAFKA_PYTHON,
    Kind.DJANGO_MARIADB: TransportName.CONFLUENT,
}


def stopped_mark(folder: Path, pid: int) -> Path:
    """A file: this process sells no more."""
    return folder / f"stopped-{pid}"


class Shop:
    """Sells from several threads: a slow sale holds up no other."""

    def __init__(self, folder: Path, kind: Kind, seller: Seller, watching: Watching) -> None:
        self._folder = folder
        self._kind = kind
        self._seller = seller
        self._watching = watching
        self._spoil = spoiler(kind, os.environ[URL])

    def sell(self, chance: random.Random) -> None:
        """One order, of the fate that the dice give it; its end is written down."""
        fate, message, watching = draw(chance), _message(chance), self._watching
        watching.sells, watching.loses_op = True, fate is Fate.LOSES_OP
        watching.pause = (lambda: come_late(chance)) if fate is Fate.LATE else lambda: None
        spoiled = False
        try:
            with self._seller.sale(message) as sale:
                spoiled = self._work(sale, message, fate, chance)
        except Exception as error:  # noqa: BLE001  (Kafka or the database is away, or it is what was to come)
            self._note(f"{fate}: {type(error).__name__}")
            if fate in {Fate.COMMITS, Fate.LOSES_OP, Fate.SLOW}:
                print(f"{fate}: {type(error).__name__}: {error}"[:500], flush=True)  # noqa: T201  (into the log)
        else:
            self._note(fate)
            if spoiled:
                self._write(DEFECTS_FILE, f"{self._kind}: {sale.transaction_id} lost its record, and was committed")
        finally:
            watching.sells = False

    def _work(self, sale: Sale, message: Message, fate: Fate, chance: random.Random) -> bool:
        """Whether it has lost its record."""

        def order() -> object:
            return sale.execute(INSERT, values_of(self._kind, sale.transaction_id, message))

        self._watching.at(Step.RECORDED)
        order()
        if fate is Fate.SLOW:
            linger(chance)
        spoiled = fate is Fate.SWALLOWS and self._spoil(sale, order)
        self._watching.at(Step.ORDERED)
        if fate is Fate.ROLLS_BACK:
            raise Rollback("the customer has thought again")
        if fate is Fate.FAILS:
            raise LookupError("there is none left")
        return spoiled

    def _note(self, outcome: str) -> None:
        self._write(outcomes_file(self._kind), outcome)

    def _write(self, name: str, line: str) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _message(chance: random.Random) -> Message:
    topic = chance.choice(TOPICS)
    key = chance.choice((None, b"", b"\x00\xff", b"customer-%d" % chance.randrange(20)))
    headers = [("trace", chance.randbytes(8)) for _ in range(chance.randrange(3))]
    if topic == orders.TOPIC:  # whose consumer reads what is wanted of it
        return Message(topic, orders.Order().value, b"customer-%d" % chance.randrange(20), headers)
    return Message(topic, chance.randbytes(chance.randrange(400)), key, headers)


def _opened(kind: Kind, servers: str, watching: Watching, *, sells: bool) -> tuple[Seller, AbstractContextManager[Any]]:
    """The seller, and what answers checks meanwhile."""
    if kind.on_django:
        from torture.shops.site import DjangoSeller  # noqa: PLC0415  (Django's processes alone need it)

        kafka = {"BOOTSTRAP_SERVERS": servers, "GROUP": kind.value, "TRANSPORT": _TRANSPORTS[kind].value}
        return DjangoSeller(os.environ[URL], kafka, watching, sells=sells), nullcontext()
    producer = None
    if sells:
        producer = watch_producer(TransactionProducer(servers, kind.value, transport=_TRANSPORTS[kind]), watching)
    make = PlainSeller if kind is Kind.PLAIN_MARIADB else SqlSeller
    seller = make(os.environ[URL], producer, watching)
    return seller, CheckEndpoint(servers, kind.value, seller.log)


def _sell_on(shop: Shop, folder: Path, seed: int, stopping: threading.Event) -> None:
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    while not stopping.wait(_THREADS / PER_SECOND):
        if not (folder / PAUSED).exists():
            shop.sell(chance)


def _in_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(folder: str, servers: str, name: str, does: str, seed: str) -> None:
    """Serve checks, and sell until SIGTERM; then serve checks."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    place, kind, sells = Path(folder), Kind(name), does == SELLS
    watching = Watching(Watch(place, name))
    seller, answering = _opened(kind, servers, watching, sells=sells)
    with answering:
        if sells:
            shop = Shop(place, kind, seller, watching)
            _in_threads(lambda number: _sell_on(shop, place, int(seed) * _THREADS + number, stopping))
        stopped_mark(place, os.getpid()).touch()
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
