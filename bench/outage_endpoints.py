"""Check endpoints of many groups in one process, opened when the measurement says so; they note what they are asked.

A transaction's id is ``GROUP-NUMBER``, the number below a limit that is known from the beginning.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from bench.endpoint import Answering, Hanging
from bench.running import party
from checkback.exceptions import CheckbackError

_ANSWER_SECONDS = 60.0
_MOST_COUNTED = 255


@dataclass(frozen=True)
class AskedOf:
    """What the endpoints of one group that answer were asked."""

    first_asked: float | None
    """``time.time()`` of the first question; None: not asked."""
    asked: int
    """Transactions that were asked about."""
    asked_again: int
    """Those of them that were asked about more than once."""


class Endpoints:
    """The process, as the measurement sees it."""

    def __init__(self, to_process: Connection) -> None:
        self._to_process = to_process

    def open(self, group: str, answering: int, hanging: int = 0) -> list[int]:
        """Open so many endpoints of each kind; their ports."""
        ports: list[int] = self._tell("open", group, answering, hanging)
        return ports

    def asked(self, group: str) -> AskedOf:
        """What they were asked until now."""
        found: AskedOf = self._tell("asked", group)
        return found

    def _tell(self, *order: object) -> Any:
        self._to_process.send(order)
        if not self._to_process.poll(_ANSWER_SECONDS):
            raise CheckbackError("The process of the check endpoints does not answer.")
        return self._to_process.recv()


@contextmanager
def endpoints(most: int) -> Iterator[Endpoints]:
    """The process; no group has more than ``most`` transactions, or its later ones are not counted."""
    with party(_serve, most) as process:
        yield Endpoints(process)


class Ledger:
    """How often each transaction of a group was asked about."""

    def __init__(self, most: int) -> None:
        self._first: float | None = None
        self._times = bytearray(most)

    def note(self, transaction_id: str, now: float) -> None:
        """It was asked about now (s)."""
        if self._first is None:
            self._first = now
        number = int(transaction_id.rpartition("-")[2])
        if number < len(self._times) and self._times[number] < _MOST_COUNTED:
            self._times[number] += 1

    def told(self) -> AskedOf:
        """Until now."""
        asked = len(self._times) - self._times.count(0)
        return AskedOf(self._first, asked, asked - self._times.count(1))


class _Noting(Answering):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def answer(self, question: dict[str, Any]) -> bytes:
        now = time.time()
        for check in question.get("checks", (question,)):
            self._ledger.note(check["id"], now)
        return super().answer(question)


def _serve(most: int, orders: Connection) -> None:
    asyncio.run(_serve_until_ended(orders, most))


async def _serve_until_ended(orders: Connection, most: int) -> None:
    ledgers: dict[str, Ledger] = {}
    loop = asyncio.get_running_loop()
    while True:
        order, group, *kinds = await loop.run_in_executor(None, orders.recv)
        ledger = ledgers.setdefault(group, Ledger(most))
        orders.send(ledger.told() if order == "asked" else await _open(ledger, kinds))


async def _open(ledger: Ledger, kinds: Sequence[int]) -> list[int]:
    loop = asyncio.get_running_loop()
    ports = []
    protocols: tuple[Callable[[], asyncio.Protocol], ...] = (partial(_Noting, ledger), Hanging)
    for protocol, number in zip(protocols, kinds, strict=True):
        for _ in range(number):
            server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=1024)
            ports.append(server.sockets[0].getsockname()[1])
    return ports
