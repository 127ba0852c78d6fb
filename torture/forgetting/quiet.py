"""Quiet weeks: nobody sends anything for ten times as long as Kafka keeps what it lets expire; then everybody does."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from torture.forgetting.system import ForgettingSystem, Part

QUIET_SECONDS = 600.0
"""Ten times the longest of these expiries."""
BROKER = {
    # offsets of groups: 7 days
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    # transactional ids: 7 days; producer ids: 1 day
    "transactional.id.expiration.ms": "30000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "30000",
    "producer.id.expiration.check.interval.ms": "1000",
    # messages of real topics: 7 days; segments: 7 days
    "log.retention.ms": "60000",
    "log.retention.check.interval.ms": "1000",
    "log.roll.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
    # compaction: a day for what was deleted
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.001",
    "log.cleaner.delete.retention.ms": "1000",
    # connections: 10 minutes
    "connections.max.idle.ms": "15000",
}
_DOWN: tuple[frozenset[Part], ...] = (
    frozenset(),
    frozenset({Part.CONSUMERS}),
    frozenset(),
    frozenset({Part.JOB}),
    frozenset({Part.JOB, Part.CONSUMERS}),
)
_BACKLOG_SECONDS = 3.0


@dataclass(frozen=True)
class Quiet:
    """One round: so long, with so much down."""

    number: int
    seconds: float
    down: frozenset[Part]

    def __str__(self) -> str:
        parts = " and ".join(sorted(self.down))
        return f"quiet for {self.seconds:.0f} s, {f'{parts} down' if parts else 'all running'}"


def schedule(seed: int, seconds: float) -> Iterator[Quiet]:
    """Rounds without end; five of them hold each, and all running twice."""
    chance, numbers = random.Random(seed), count(1)  # noqa: S311  (dice, no secret)
    while True:
        for down in chance.sample(_DOWN, len(_DOWN)):
            yield Quiet(next(numbers), seconds, down)


def keep_quiet(system: ForgettingSystem, this: Quiet) -> float:
    """1. The system is at rest.  2. Quiet.  3. Traffic, which those that are down find when they are back.

    Returns:
        When traffic began (``time.time()``).
    """
    system.stop(this.down)
    system.supervise_for(this.seconds)  # 2
    since = system.resume_shop()  # 3
    if this.down:
        time.sleep(_BACKLOG_SECONDS)
    system.bring_back()
    return since
