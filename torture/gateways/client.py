"""A client of two gateways: ``python -m torture.gateways.client`` with the arguments of :func:`main`.

It may be killed, or stopped and continued, at any step. SIGTERM ends the sending; it goes on to answer checks.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from torture.effects.strike import Watch
from torture.gateways.orders import OrderBooks, Seller
from torture.gateways.over_http import HttpAnswering, HttpProducer
from torture.gateways.over_rocketmq import RocketAnswering, RocketGateway, RocketProducer, RocketSeller
from torture.gateways.schedule import Kind
from torture.lanes.producer import send, stopped_mark

REFUSED = "refused"
"""A file: a gateway refused what is in order, or a client failed in another way that no fault explains."""
_SELLERS = 2
"""At once, in one process."""
_PER_SECOND = 6.0
"""Each."""


def main(folder: str, kind: str, topics: str, seed: str, *ports: str) -> None:
    """Answer checks and send until SIGTERM; then answer checks. ``ports``: the gateways', of this kind."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    place, whole = Path(folder), threading.RLock()
    threading.excepthook = lambda failed: _failed(place, failed.exc_value)
    books, watch = OrderBooks(place, whole), Watch(place, kind, whole)
    make = _over_http if kind == Kind.HTTP else _over_rocketmq
    sellers = make(books, watch, topics.split(","), int(seed), [int(port) for port in ports])
    threads = [threading.Thread(target=send, args=(one, place, stopping, _PER_SECOND), daemon=True) for one in sellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stopped_mark(place, os.getpid()).touch()
    threading.Event().wait()


def _over_http(books: OrderBooks, watch: Watch, topics: Sequence[str], seed: int, ports: Sequence[int]) -> list[Seller]:
    for port in ports:
        HttpAnswering(books, port).start()
    return _sellers(Seller, books, topics, seed, lambda number: HttpProducer(books, watch, number, ports))


def _over_rocketmq(
    books: OrderBooks, watch: Watch, topics: Sequence[str], seed: int, ports: Sequence[int]
) -> list[Seller]:
    RocketSeller.client_id = f"torture-{os.getpid()}-{seed}"
    gateways = [RocketGateway.at(port, RocketSeller.client_id) for port in ports]
    for gateway in gateways:
        RocketAnswering(books, gateway, topics).start()
    return _sellers(RocketSeller, books, topics, seed, lambda number: RocketProducer(books, watch, number, gateways))


def _sellers(
    kind: type[Seller],
    books: OrderBooks,
    topics: Sequence[str],
    seed: int,
    make: Callable[[int], HttpProducer | RocketProducer],
) -> list[Seller]:
    numbers = [seed * _SELLERS + one for one in range(_SELLERS)]
    return [kind(books, make(number), topics, number) for number in numbers]


def _failed(folder: Path, error: BaseException | None) -> None:
    if error is not None:
        traceback.print_exception(error)
        (folder / REFUSED).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
