"""Who is killed when: drawn before it begins, so that a seed says it all."""

import random
from collections.abc import Sequence
from typing import NamedTuple

_SECONDS_EACH = 4.0


class Kill(NamedTuple):
    """SIGKILL for one process."""

    at: float
    """Seconds after the first order."""
    victim: str


def plan(shop: str, services: Sequence[str], seconds: float, seed: int) -> list[Kill]:
    """About one every four seconds, the shop and a points service at least once each."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    victims = [shop, chance.choice(services)]
    victims += chance.choices([shop, *services], k=round(seconds / _SECONDS_EACH) - len(victims))
    chance.shuffle(victims)
    moments = sorted(chance.uniform(0.1, 0.95) * seconds for _ in victims)
    return [Kill(at, victim) for at, victim in zip(moments, victims, strict=True)]
