"""Which fault comes to the gateways, their clients and what they need when: drawn from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, product

from torture.gateways.steps import Step

_MOST_DELAY_SECONDS = 1.0
_STOPPED_SECONDS = (1.0, 8.0)
GATEWAYS = 2


class Kind(StrEnum):
    """How a client speaks to a gateway."""

    HTTP = "http"
    ROCKETMQ = "rocketmq"


class Fault(StrEnum):
    """What is done."""

    GATEWAY_KILLED = "a gateway killed"
    BOTH_KILLED = "both gateways killed at once"
    GATEWAY_STOPPED = "a gateway stopped for 1 to 8 s"
    STOPPED_AND_KILLED = "a gateway stopped for 1 to 8 s, and killed"
    BROKER_MEANWHILE = "a gateway stopped, the broker restarted, the gateway continued"
    CLIENT_KILLED = "a client killed"
    CLIENT_STOPPED = "a client stopped, and continued when all it had sent was decided"
    BROKER_STOPPED = "the broker stopped for 1 to 8 s"
    BROKER_RESTARTED = "broker restarted"
    BROKER_KILLED = "broker killed"
    CHECKS_KILLED = "check service killed"
    JOB_KILLED = "job killed"


WHILE_GATEWAY_STOPS = frozenset({Step.UNANSWERED, Step.SENT_AGAIN})
"""Where a client comes when a gateway does not answer."""
_ASLEEP = (Step.SENT_AGAIN, Step.POSTED, Step.COMMITTED)
_ALONE = (Fault.BOTH_KILLED, Fault.BROKER_MEANWHILE, Fault.BROKER_RESTARTED, Fault.BROKER_KILLED, Fault.CHECKS_KILLED)

Card = tuple[Fault, Step | None, Kind | None]

_BRIEF: tuple[Card, ...] = (
    (Fault.BROKER_STOPPED, None, None),
    (Fault.GATEWAY_STOPPED, None, None),
)
"""What a test has time for."""


@dataclass(frozen=True)
class Round:
    """One fault."""

    number: int
    fault: Fault
    step: Step | None
    kind: Kind | None
    """Of the client that is struck."""
    gateway: int
    """The one that is struck."""
    delay_seconds: float
    stopped_seconds: float
    """How long who is stopped stands still."""

    def __str__(self) -> str:
        client = f" ({self.kind})" if self.kind else ""
        step = f": {self.step}" if self.step else ""
        return f"{self.fault}{client}{step}"


def deck() -> list[Card]:
    """Each fault, of clients at each step with each kind; what makes a client send again more often."""
    cards: list[Card] = [(Fault.CLIENT_KILLED, step, kind) for step, kind in product(Step, Kind)]
    cards += [(Fault.CLIENT_STOPPED, step, kind) for step, kind in product(_ASLEEP, Kind)]
    cards += [(Fault.GATEWAY_STOPPED, None, None)] * 4
    cards += [
        (fault, None, None) for fault in (Fault.GATEWAY_KILLED, Fault.STOPPED_AND_KILLED, Fault.BROKER_STOPPED)
    ] * 2
    cards += [(fault, None, None) for fault in _ALONE]
    return [*cards, (Fault.JOB_KILLED, None, None)]


def schedule(seed: int, *, brief: bool = False) -> Iterator[Round]:
    """Rounds without end: deck after deck, each in an order of its own."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    while True:
        cards = list(_BRIEF) if brief else deck()
        if not brief:
            chance.shuffle(cards)
        for card in cards:
            delay, stopped = chance.uniform(0, _MOST_DELAY_SECONDS), chance.uniform(*_STOPPED_SECONDS)
            yield Round(next(numbers), *card, chance.randrange(GATEWAYS), delay, stopped)
