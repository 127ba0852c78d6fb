"""Waits of a fault run, while what ends is started again."""

import math
import time
from collections.abc import Callable

from checkback.exceptions import CheckbackError

GIVE_UP_SECONDS = 480.0
"""When a run no longer waits for the system to come back: far away, since reports say how long it took, and a machine
that tests a few things at once starts a job in four minutes.
"""
_POLL_SECONDS = 0.05
_REST_SECONDS = 1.0
"""It is much to compare."""


class NotRecoveredError(CheckbackError):
    """Nothing new was delivered in time."""


def wait_until(holds: Callable[[], bool], seconds: float, otherwise: str, meanwhile: Callable[[], None]) -> None:
    """Wait until the condition holds, and do ``meanwhile`` each time that it does not.

    Raises:
        NotRecoveredError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise NotRecoveredError(f"Within {seconds:.0f} s {otherwise}.")
        meanwhile()
        time.sleep(_POLL_SECONDS)


def wait_while_less_is_missing(
    missing: Callable[[], tuple[int, ...]],
    patience: float,
    meanwhile: Callable[[], None],
    *,
    most_seconds: float = math.inf,
) -> None:
    """Wait until nothing is missing, or no less has been for ``patience`` (s), or the time is over."""
    end, fewest, since = time.monotonic() + most_seconds, missing(), time.monotonic()
    while any(fewest) and time.monotonic() < min(end, since + patience):
        meanwhile()
        time.sleep(_REST_SECONDS)
        now = missing()
        if now < fewest:
            fewest, since = now, time.monotonic()
