"""Which fault comes to the shops when: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from torture.shops.kinds import Kind
from torture.shops.steps import ASLEEP, DEADLY, Step

_MOST_AFTER = 5
_MOST_DELAY_SECONDS = 0.5


class Fault(StrEnum):
    """What is done."""

    KILLED = "a shop killed"
    ALL_KILLED = "all processes of a shop killed, those that answer for it, too"
    STOPPED = "a shop stopped for longer than several checks, and continued"
    STOPPED_MEANWHILE = "a shop stopped, its database crashed and started again, the shop continued"
    ANSWER_LOST = "the answer to a shop's commit lost"
    CONNECTIONS_CUT = "all connections to the database cut"
    DATABASE_CRASHED = "database crashed, and started again"
    DATABASE_RESTARTED = "database restarted"
    DATABASE_AWAY = "database away for some seconds"
    JOB_KILLED = "job killed"
    BROKER_RESTARTED = "broker restarted"
    CONSUMER_KILLED = "the consumer with the inbox killed"


Card = tuple[Fault, Step | None]
DECK: tuple[Card, ...] = (
    *((Fault.KILLED, step) for step in DEADLY),
    *((Fault.STOPPED, step) for step in ASLEEP),
    (Fault.ALL_KILLED, None),
    (Fault.STOPPED_MEANWHILE, Step.ORDERED),
    (Fault.ANSWER_LOST, Step.ANSWERED),
    *((Fault.CONNECTIONS_CUT, step) for step in (None, Step.ORDERED, Step.COMMITTING)),
    *((Fault.DATABASE_CRASHED, step) for step in (None, Step.RECORDED, Step.ORDERED, Step.COMMITTING)),
    *((Fault.DATABASE_RESTARTED, step) for step in (None, Step.ORDERED, Step.COMMITTING)),
    (Fault.DATABASE_AWAY, None),
    (Fault.JOB_KILLED, None),
    (Fault.BROKER_RESTARTED, None),
    (Fault.CONSUMER_KILLED, None),
)
_BRIEF: tuple[tuple[Fault, Step | None, Kind], ...] = (
    (Fault.KILLED, Step.COMMITTED, Kind.DJANGO_POSTGRESQL),
    (Fault.DATABASE_CRASHED, Step.COMMITTING, Kind.SQL_MARIADB),
    (Fault.KILLED, Step.COMMITTING, Kind.PLAIN_MARIADB),
)
"""What a test has time for."""


@dataclass(frozen=True)
class Round:
    """One fault, ``delay_seconds`` after the round before: of a shop of this kind, or of its database."""

    number: int
    fault: Fault
    step: Step | None
    kind: Kind
    after: int
    delay_seconds: float
    seed: int
    """For what the fault itself has to draw."""

    def __str__(self) -> str:
        step = f": {self.step}" if self.step else ""
        return f"{self.fault} ({self.kind}){step}"


def schedule(seed: int, *, brief: bool = False) -> Iterator[Round]:
    """Rounds without end: deck after deck, each in an order of its own; from deck to deck the kinds take turns."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers, kinds = count(1), list(Kind)
    for deck in count(chance.randrange(len(kinds))):
        cards = [(*card, kinds[(at + deck) % len(kinds)]) for at, card in enumerate(DECK)]
        chance.shuffle(cards)
        for fault, step, kind in _BRIEF if brief else cards:
            after, delay = 1 + chance.randrange(_MOST_AFTER), chance.uniform(0, _MOST_DELAY_SECONDS)
            yield Round(next(numbers), fault, step, kind, after, delay, chance.getrandbits(32))
