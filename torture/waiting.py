"""Waits of a fault run, while what ends is started again."""

import time
from collections.abc import Callable

from checkback.exceptions import CheckbackError

GIVE_UP_SECONDS = 480.0
"""When a run no longer waits for the system to come back: far away, since reports say how long it took, and a machine
that tests a few things at once starts a job in four minutes.
"""
_POLL_SECONDS = 0.05


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
