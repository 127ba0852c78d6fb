"""Which fault comes when: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from streaming.batch.failpoints import Failpoint


class Fault(StrEnum):
    """What is done to the running system."""

    DRIVER_KILLED = "driver killed"
    EXECUTOR_KILLED = "executor killed"
    WORKERS_KILLED = "Python workers killed"
    JOB_SUSPENDED = "job suspended for 20 s, another takes over"
    BROKER_RESTARTED = "broker restarted"
    BROKER_KILLED = "broker killed"
    BROKER_AWAY = "broker away for 90 s"
    CHECK_SERVICE_KILLED = "check service killed"
    PRODUCER_KILLED = "producer killed"
    CHECKPOINT_TORN = "checkpoint file torn"
    CLOCK_BACK_SECONDS = "clock stepped back by 30 s, then by 7 min between two runs"
    CLOCK_BACK_HOUR = "clock stepped back by an hour"
    CLOCK_AHEAD = "clock ahead by four days"
    SETTINGS_CHANGED = "driver killed, started again with other settings"
    TOPIC_LATE = "a topic that is made late"
    TOPIC_GROWN = "a partition that is added late"
    TOPIC_LEADERLESS = "a topic without a leader for 60 s"
    SECOND_JOB = "a second job of another name"
    DATABASE_CUT = "connections to PostgreSQL cut"


PUBLISHING = (Failpoint.BEFORE_PUBLISH, Failpoint.BETWEEN_DESTINATIONS, Failpoint.AFTER_PUBLISH)
"""Steps that a batch has only where messages go to tables."""
STEPS = tuple(step for step in Failpoint if step not in PUBLISHING)
TASK_STEPS = (
    Failpoint.IN_STATE,
    Failpoint.BEFORE_TRANSACTION,
    Failpoint.IN_TRANSACTION,
    Failpoint.STATE_COMMITTED,
    Failpoint.AFTER_TRANSACTION,
)

TESTED_ALONE = frozenset(
    {Fault.CLOCK_AHEAD, Fault.SECOND_JOB, Fault.TOPIC_LATE, Fault.TOPIC_GROWN, Fault.TOPIC_LEADERLESS}
)
"""Faults with tests of their own on a real Kafka (test_clock, test_claim, test_held, test_brokers_away), so that a
brief run does not repeat them."""

_MOST_DELAY_SECONDS = 1.5

_DEATHS_AT_STEPS = 4
"""How many of the steps the driver dies at in thirty rounds; the next thirty take others."""

# Together with those, thirty rounds hold every fault; with a database it takes 32.
_DECK: tuple[tuple[Fault, tuple[Failpoint | None, ...], int], ...] = (
    (Fault.DRIVER_KILLED, (None,), 2),
    (Fault.EXECUTOR_KILLED, (None,), 1),
    (Fault.EXECUTOR_KILLED, TASK_STEPS, 2),
    (Fault.WORKERS_KILLED, (None,), 2),
    (Fault.WORKERS_KILLED, TASK_STEPS, 2),
    (Fault.BROKER_AWAY, (None,), 1),
    (Fault.JOB_SUSPENDED, (None, *TASK_STEPS), 1),
    (Fault.BROKER_RESTARTED, (None,), 1),
    (Fault.BROKER_KILLED, (None,), 1),
    (Fault.CHECK_SERVICE_KILLED, (None,), 1),
    (Fault.PRODUCER_KILLED, (None,), 2),
    (Fault.SETTINGS_CHANGED, STEPS, 2),
    (Fault.TOPIC_LATE, (None,), 1),
    (Fault.TOPIC_GROWN, (None,), 1),
    (Fault.TOPIC_LEADERLESS, (None,), 1),
    (Fault.SECOND_JOB, (None,), 1),
    (Fault.CHECKPOINT_TORN, (None,), 1),
    (Fault.CLOCK_BACK_SECONDS, (None,), 1),
    (Fault.CLOCK_BACK_HOUR, (None,), 1),
    (Fault.CLOCK_AHEAD, (None,), 1),
    (Fault.DATABASE_CUT, (None,), 2),
)


@dataclass(frozen=True)
class Round:
    """One fault: at a step of whichever batch gets there first, or ``delay_seconds`` after the round before."""

    number: int
    fault: StrEnum
    """A :class:`Fault`, or a :class:`torture.decks.MachineFault`."""
    step: Failpoint | None
    delay_seconds: float
    seed: int
    """For what the fault itself has to draw: which file, which process."""

    def __str__(self) -> str:
        return f"{self.fault}: {self.step}" if self.step else str(self.fault)


def schedule(
    seed: int, without: frozenset[Fault] = frozenset(), more_steps: Sequence[Failpoint] = (), *, brief: bool = False
) -> Iterator[Round]:
    """Rounds without end; every thirty of them (32 with a database to cut off) hold each
    fault but those in ``without``, in an order of their own.

    ``more_steps`` are further ones at which the driver dies. ``brief`` takes each fault once that has no test
    of its own, at a step where it has any: thirteen rounds, fourteen with a database.
    """
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    steps = (*STEPS, *more_steps)
    first = chance.randrange(len(steps))
    while True:
        dying_at = [steps[(first + place) % len(steps)] for place in range(_DEATHS_AT_STEPS)]
        first += _DEATHS_AT_STEPS
        deaths = [(Fault.DRIVER_KILLED, (step,), 1) for step in dying_at]
        deck = [card for card in (*deaths, *_DECK) if card[0] not in without]
        cards = [(fault, at) for fault, at, copies in deck for _ in range(copies)]
        chance.shuffle(cards)
        if brief:
            steps_of = dict(sorted(cards, key=lambda card: card[1] != (None,)))
            faults = dict.fromkeys(fault for fault, _ in cards if fault not in TESTED_ALONE)
            cards = [(fault, steps_of[fault]) for fault in faults]
        for fault, at in cards:
            delay = chance.uniform(0, _MOST_DELAY_SECONDS)
            yield Round(next(numbers), fault, chance.choice(at), delay, chance.getrandbits(32))
