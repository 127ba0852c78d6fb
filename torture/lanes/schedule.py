"""Which fault comes to the lanes when: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from torture.lanes.steps import OF_TRANSACTION, LaneStep, SettlingStep

_MOST_DELAY_SECONDS = 1.0


class Fault(StrEnum):
    """What is done."""

    KILLED = "a producer killed"
    STOPPED = "a producer stopped, and continued when all it had sent was decided"
    ALL_KILLED = "all producers killed at once"
    FENCED = "a living producer's lane settled by somebody else"
    FENCED_AND_KILLED = "likewise, and the producer killed"
    CHECKS_KILLED = "a producer killed, and the check service"
    CHECKS_STOPPED = "a producer killed, and the check service stopped, and continued when another had decided"
    BROKER_RESTARTED = "broker restarted"
    BROKER_KILLED = "broker killed"
    BROKER_RESTARTED_MEANWHILE = "a producer stopped, the broker restarted, the producer continued"


_AT_STEPS: tuple[tuple[Fault, tuple[StrEnum, ...]], ...] = (
    (Fault.KILLED, OF_TRANSACTION),
    (Fault.STOPPED, OF_TRANSACTION),
    (Fault.FENCED_AND_KILLED, (LaneStep.SETTLING_ITSELF,)),
)
_ALONE: tuple[tuple[Fault, StrEnum | None], ...] = (
    *((Fault.CHECKS_KILLED, step) for step in SettlingStep),
    *((Fault.CHECKS_STOPPED, step) for step in SettlingStep),
    (Fault.FENCED, None),
    (Fault.ALL_KILLED, None),
    (Fault.BROKER_RESTARTED, None),
    (Fault.BROKER_KILLED, None),
    (Fault.BROKER_RESTARTED_MEANWHILE, LaneStep.LEDGER_ADDED),
    (Fault.BROKER_RESTARTED_MEANWHILE, LaneStep.COMMITTED),
)
_BRIEF: tuple[tuple[Fault, StrEnum | None], ...] = (
    (Fault.KILLED, LaneStep.LEDGER_ADDED),
    (Fault.CHECKS_KILLED, SettlingStep.LEDGER_READ),
)
"""What a test has time for."""


@dataclass(frozen=True)
class Round:
    """One fault."""

    number: int
    fault: Fault
    step: StrEnum | None
    delay_seconds: float

    def __str__(self) -> str:
        step = f": {self.step}" if self.step else ""
        return f"{self.fault}{step}"


def deck() -> list[tuple[Fault, StrEnum | None]]:
    """Each fault at each step."""
    return [*((fault, step) for fault, steps in _AT_STEPS for step in steps), *_ALONE]


def schedule(seed: int, *, brief: bool = False) -> Iterator[Round]:
    """Rounds without end: deck after deck, each in an order of its own."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    while True:
        cards = list(_BRIEF) if brief else deck()
        if not brief:
            chance.shuffle(cards)
        for card in cards:
            yield Round(next(numbers), *card, chance.uniform(0, _MOST_DELAY_SECONDS))
