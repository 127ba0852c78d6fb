"""Which fault comes to the consumers when: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from checkback.transports import TransportName
from torture.effects.steps import CLOSES, REBALANCING, Step

TRANSPORTS = (TransportName.KAFKA_PYTHON, TransportName.CONFLUENT)


class Fault(StrEnum):
    """What is done."""

    KILLED_AT_STEP = "a consumer killed"
    KILLED = "a consumer killed at a random moment"
    ALL_KILLED = "all consumers killed at once"
    ZOMBIE = "a consumer stopped for longer than its session lasts"
    RESTARTED = "a consumer stopped in order, and started again"
    MEMBERS_CHANGED = "a consumer added, another one removed"
    PARTITION_ADDED = "a partition added"
    BROKER_KILLED = "broker killed"
    BROKER_RESTARTED = "broker restarted"
    JOB_KILLED = "job killed"
    POISONED = "an order that kills each consumer that reads it"


ZOMBIE_STEPS = (
    None,
    Step.LISTENER_BEGUN,
    Step.TRANSACTION_BEGUN,
    Step.DATABASE_COMMITTED,
    Step.STORING,
    Step.RECORDS_WRITTEN,
    Step.OFFSETS_ADDED,
)
_ZOMBIES = 2
_OFTEN = frozenset({Step.MESSAGES_READ, Step.LISTENER_BEGUN, Step.TRANSACTION_BEGUN, Step.INBOX_ROW, Step.BOOKED})
_MOST_AFTER = 8
_MOST_DELAY_SECONDS = 0.5

BRIEF: tuple[tuple[Fault, Step | None], ...] = (
    (Fault.KILLED_AT_STEP, Step.DATABASE_COMMITTED),
    (Fault.KILLED_AT_STEP, Step.RECORDS_WRITTEN),
    (Fault.KILLED_AT_STEP, Step.LEAVING_UNSTORED),
    (Fault.ZOMBIE, Step.DATABASE_COMMITTED),
    (Fault.ALL_KILLED, None),
)
"""What a test has time for."""


@dataclass(frozen=True)
class Round:
    """One fault, ``delay_seconds`` after the round before; at a step, of a consumer on ``transport`` if it is named."""

    number: int
    fault: Fault
    step: Step | None
    transport: str
    after: int
    delay_seconds: float
    seed: int
    """For what the fault itself has to draw."""

    def __str__(self) -> str:
        who = f" ({self.transport})" if self.transport else ""
        return f"{self.fault}{who}: {self.step}" if self.step else str(self.fault)


def schedule(seed: int, *, brief: bool = False) -> Iterator[Round]:
    """Rounds without end; each deck of them holds every step and every other fault, in an order of its own.

    From deck to deck a step takes turns between the two Kafka clients. ``brief`` has decks of :data:`BRIEF`, as it is.
    """
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    for deck in count(chance.randrange(len(ZOMBIE_STEPS))):
        cards = list(BRIEF) if brief else _deck(deck)
        if not brief:
            chance.shuffle(cards)
        for fault, step in cards:
            turn = TRANSPORTS[(deck + list(Step).index(step)) % 2] if step else ""
            transport = "" if step in {*REBALANCING, *CLOSES, Step.BEGUN_ALONE} else turn
            after = 1 + (chance.randrange(_MOST_AFTER) if step in _OFTEN else 0)
            delay = chance.uniform(0, _MOST_DELAY_SECONDS)
            yield Round(next(numbers), fault, step, transport, after, delay, chance.getrandbits(32))


def _deck(number: int) -> list[tuple[Fault, Step | None]]:
    others = [fault for fault in Fault if fault not in {Fault.KILLED_AT_STEP, Fault.ZOMBIE}]
    first = number * _ZOMBIES
    zombies = [ZOMBIE_STEPS[(first + place) % len(ZOMBIE_STEPS)] for place in range(_ZOMBIES)]
    return [
        *((Fault.KILLED_AT_STEP, step) for step in Step),
        *((Fault.ZOMBIE, step) for step in zombies),
        *((fault, None) for fault in others),
    ]


DECK = len(_deck(0))
"""Rounds of a deck."""
