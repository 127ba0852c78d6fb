"""Customers: they order and pay over HTTP, and do not wait for a shop that is down."""

import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from time import monotonic

import httpx

NAMES = ("ada", "bert", "cleo", "dora")
PAID, REFUSED, NO_ANSWER = "paid", "refused", "no answer"

_DEAREST_CENTS = 49_900
_TOO_DEAR_CENTS = 99_900  # than the card allows
_TOO_DEAR_OFTEN = 0.1


class Customer(threading.Thread):
    """Orders until told to stop; ``heard`` counts what the shop said, which is not always what is in its database."""

    def __init__(self, name: str, url: str, per_second: float, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.heard: Counter[str] = Counter()
        self._shop, self._pause = httpx.Client(base_url=url, timeout=10), 1 / per_second
        self._chance = random.Random(f"{seed} {name}")  # noqa: S311  (dice, no secret)
        self._leaving = threading.Event()

    def run(self) -> None:
        """Order again and again."""
        due = monotonic()
        with closing(self._shop):
            while not self._leaving.wait(max(0.0, due - monotonic())):
                due = max(due + self._pause, monotonic())
                self.order()

    def order(self) -> str:
        """Order and pay; says, and counts, what the shop said."""
        heard = self._order()
        self.heard[heard] += 1
        return heard

    def leave(self) -> None:
        """Order no more; what was begun is ended."""
        self._leaving.set()

    def _order(self) -> str:
        cents = self._chance.randrange(500, _DEAREST_CENTS)
        if self._chance.random() < _TOO_DEAR_OFTEN:
            cents = _TOO_DEAR_CENTS
        try:
            placed = self._shop.post("/orders", json={"customer": self.name, "cents": cents}).raise_for_status()
            answer = self._shop.post(f"/orders/{placed.json()['order']}/pay")
        except httpx.HTTPError:
            return NO_ANSWER  # killed before, in the midst, or after: only its database knows
        return (
            PAID if answer.is_success else REFUSED if answer.status_code == httpx.codes.PAYMENT_REQUIRED else NO_ANSWER
        )


def heard_by(customers: Sequence[Customer]) -> Counter[str]:
    """What all of them heard."""
    return sum((one.heard for one in customers), Counter())
