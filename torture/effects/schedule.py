"""Which fault comes to the consumers when: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from torture.effects.database import Kind
from torture.effects.steps import LOCKS, Step


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

    CONNECTIONS_CUT = "the consumers' connections to their database cut"
    ANSWER_LOST = "the answer to a consumer's commit lost"
    DATABASE_CRASHED = "database crashed, and started again"
    DATABASE_RESTARTED = "database restarted"
    DATABASE_AWAY = "database away for some seconds"


OF_DATABASE: dict[Kind, tuple[tuple[Fault, Step | None], ...]] = {
    Kind.FILE: (),
    Kind.THERE: (
        (Fault.CONNECTIONS_CUT, None),
        (Fault.CONNECTIONS_CUT, Step.TRANSACTION_BEGUN),
        (Fault.CONNECTIONS_CUT, Step.INBOX_ROW),
        (Fault.CONNECTIONS_CUT, Step.BOOKED),
        (Fault.CONNECTIONS_CUT, Step.COMMITTING),
        (Fault.ANSWER_LOST, Step.DATABASE_COMMITTED),
    ),
    Kind.OURS: (
        (Fault.DATABASE_CRASHED, None),
        (Fault.DATABASE_CRASHED, Step.INBOX_ROW),
        (Fault.DATABASE_CRASHED, Step.BOOKED),
        (Fault.DATABASE_CRASHED, Step.COMMITTING),
        (Fault.DATABASE_RESTARTED, None),
        (Fault.DATABASE_RESTARTED, Step.BOOKED),
        (Fault.DATABASE_RESTARTED, Step.COMMITTING),
        (Fault.DATABASE_AWAY, None),
    ),
}
"""What comes to a deck with a database that is one of these; to one of the run's own both."""
_OF_DATABASE = frozenset(fault for cards in OF_DATABASE.values() for fault, _ in cards)

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
_OFTEN = frozenset(
    {
        *(Step.MESSAGES_READ, Step.LISTENER_BEGUN, Step.TRANSACTION_BEGUN),
        *(Step.INBOX_ROW, Step.BOOKED, Step.COMMITTING),
    }
)
_MOST_AFTER = 8
_MOST_DELAY_SECONDS = 0.5

BRIEF: tuple[tuple[Fault, Step | None], ...] = (
    (Fault.KILLED_AT_STEP, Step.DATABASE_COMMITTED),
    (Fault.KILLED_AT_STEP, Step.LEAVING_UNSTORED),
    (Fault.ZOMBIE, Step.DATABASE_COMMITTED),
)
"""What a test has time for."""
BRIEF_OF_DATABASE: tuple[tuple[Fault, Step | None], ...] = (
    (Fault.CONNECTIONS_CUT, Step.BOOKED),
    (Fault.KILLED_AT_STEP, Step.BOOKED),
    (Fault.ANSWER_LOST, Step.DATABASE_COMMITTED),
    (Fault.DATABASE_CRASHED, Step.COMMITTING),
    (Fault.KILLED_AT_STEP, Step.LEAVING_UNSTORED),
    (Fault.DATABASE_AWAY, None),
)
"""Likewise, with a PostgreSQL of the run's own."""


@dataclass(frozen=True)
class Round:
    """One fault, ``delay_seconds`` after the round before."""

    number: int
    fault: Fault
    step: Step | None
    after: int
    delay_seconds: float
    seed: int
    """For what the fault itself has to draw."""

    def __str__(self) -> str:
        return f"{self.fault}: {self.step}" if self.step else str(self.fault)


def schedule(seed: int, *, brief: bool = False, database: Kind = Kind.FILE) -> Iterator[Round]:
    """Rounds without end; each deck of them holds every step and every other fault, in an order of its own.

    ``brief`` has decks of :data:`BRIEF`, as it is, or with a database of the run's own of :data:`BRIEF_OF_DATABASE`.
    """
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    for deck in count(chance.randrange(len(ZOMBIE_STEPS))):
        few = BRIEF_OF_DATABASE if database is Kind.OURS else BRIEF
        cards = list(few) if brief else _deck(deck, database)
        if not brief:
            chance.shuffle(cards)
        for fault, step in cards:
            after = 1 + (chance.randrange(_MOST_AFTER) if step in _OFTEN else 0)
            delay = chance.uniform(0, _MOST_DELAY_SECONDS)
            yield Round(next(numbers), fault, step, after, delay, chance.getrandbits(32))


def _deck(number: int, database: Kind) -> list[tuple[Fault, Step | None]]:
    others = [fault for fault in Fault if fault not in {Fault.KILLED_AT_STEP, Fault.ZOMBIE, *_OF_DATABASE}]
    steps = ZOMBIE_STEPS if database is Kind.FILE else (*ZOMBIE_STEPS, *sorted(LOCKS))
    first = number * _ZOMBIES
    zombies = [steps[(first + place) % len(steps)] for place in range(_ZOMBIES)]
    return [
        *((Fault.KILLED_AT_STEP, step) for step in Step),
        *((Fault.ZOMBIE, step) for step in zombies),
        *((fault, None) for fault in others),
        *_cards_of(database),
    ]


def _cards_of(database: Kind) -> list[tuple[Fault, Step | None]]:
    kinds = {Kind.FILE: (), Kind.THERE: (Kind.THERE,), Kind.OURS: (Kind.THERE, Kind.OURS)}[database]
    return [card for kind in kinds for card in OF_DATABASE[kind]]


def deck_size(database: Kind) -> int:
    """Rounds of a deck."""
    return len(_deck(0, database))
