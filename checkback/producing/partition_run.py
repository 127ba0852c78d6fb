"""Which partition of the half topic the next half message goes to."""

import contextlib
import random
from collections.abc import Callable
from time import monotonic

from checkback.exceptions import ConfigurationError

_RUN_LENGTH = 64
"""Half messages in a row to one partition, so that concurrent ones share a request."""
_ASK_SECONDS = 60.0


class PartitionRun:
    """Chooses half partitions: runs of one partition, so that batches fill, and all partitions in turn.

    ``ask`` says how many there are; it is asked again once a minute, since topics may be grown.
    """

    def __init__(self, ask: Callable[[], int], clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._partitions = ask()
        self._ask_at = clock() + _ASK_SECONDS
        self._count = random.randrange(self._partitions) * _RUN_LENGTH  # noqa: S311  (spreads load, hides nothing)

    def look(self) -> None:
        """Ask when it is time. Without an answer what is known stays."""
        if self._clock() >= self._ask_at:
            self._ask_at = self._clock() + _ASK_SECONDS
            with contextlib.suppress(ConfigurationError):
                self._partitions = self._ask()

    def next_partition(self) -> int:
        """Of the next half message."""
        # A race between threads costs nothing but an uneven run.
        self._count += 1
        return self._count // _RUN_LENGTH % self._partitions
