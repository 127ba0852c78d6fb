"""Kafka is away: what is ridden out, and for how long between two tries."""

import logging
from collections.abc import Callable

from checkback.exceptions import CheckbackError

_LOGGER = logging.getLogger(__name__)
_FIRST_PAUSE_MS = 100
_LONGEST_PAUSE_MS = 5_000
_SAID_AGAIN_MS = 60_000


class Outage:
    """Whether Kafka answers, as one thread knows it: how long to pause, and when to say what.

    ``clock_ms`` is any clock that does not run backwards.
    """

    def __init__(self, what: str, clock_ms: Callable[[], int]) -> None:
        self._what = what
        self._clock_ms = clock_ms
        self._pause_ms = 0
        self._since_ms = self._said_ms = 0

    @property
    def lasts(self) -> bool:
        """Whether Kafka has not answered since the last failure."""
        return bool(self._pause_ms)

    def failed(self, error: BaseException) -> float:
        """Kafka did not answer. Seconds to pause until the next try: longer each time, up to 5."""
        now_ms = self._clock_ms()
        if not self._pause_ms:
            self._since_ms = now_ms
        if not self._pause_ms or now_ms - self._said_ms >= _SAID_AGAIN_MS:
            self._said_ms = now_ms
            passing = not isinstance(error, CheckbackError) or error.retriable
            _LOGGER.warning(
                "%s (%s), for %s s now; it is tried again, nothing is lost: %r",
                "Kafka does not answer" if passing else "This needs somebody",
                self._what,
                (now_ms - self._since_ms) // 1000,
                error,
            )
        self._pause_ms = min(2 * self._pause_ms or _FIRST_PAUSE_MS, _LONGEST_PAUSE_MS)
        return self._pause_ms / 1000

    def answered(self) -> None:
        """Kafka has answered: the next failure is a new one."""
        if self._pause_ms:
            _LOGGER.warning(
                "Kafka answers again (%s), after %s s", self._what, (self._clock_ms() - self._since_ms) // 1000
            )
        self._pause_ms = 0
