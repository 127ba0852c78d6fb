"""What the orders of a fault run with consumers ask of the listener: their value says it."""

import json
import random
from dataclasses import asdict, dataclass
from typing import Self

GROUP = "points"
TOPIC = "sales"
PARTITIONS = 4
"""Of the topic, in the beginning."""
ALWAYS = 1_000


@dataclass(frozen=True)
class Order:
    """One order; all else that an order may have does not matter here."""

    later: int = 0
    """So many tries are answered *later*."""
    raises: int = 0
    """So many raise, after the effect was booked and before the commit."""
    deaths: int = 0
    """So many consumers are killed by it, in the listener."""
    seconds: float = 0.0
    """How long the listener has it in hand, before the database transaction."""
    name: str = ""
    """Its id, where its message has no ``cb-id``."""

    @property
    def value(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, value: bytes | None) -> Self:
        """Read it."""
        return cls(**json.loads(value or b"{}"))


_MIX = {
    Order(): 0.80,
    Order(seconds=0.3): 0.03,
    Order(later=1): 0.06,
    Order(later=2): 0.03,
    Order(raises=1): 0.05,
    Order(later=ALWAYS): 0.03,
}


def draw(chance: random.Random) -> Order:
    """One of those that come all the time."""
    return chance.choices(list(_MIX), weights=list(_MIX.values()))[0]
