"""When an endpoint that does not answer is skipped, and when it is tried again. No clock: time is passed in."""

FAILURES = 5
FIRST_PAUSE_MS = 10_000
LONGEST_PAUSE_MS = 25_000
"""A group whose endpoint is back is asked within half a minute."""
UNASKED_MS = 60_000
"""Whoever has not been asked for so long after a pause was not needed: no check waits for it."""


class Breaker:
    """Closed: asked. Open, after ``failures`` failures in a row: not asked for a pause. Then half-open: asked once.

    That one probe closes the breaker, or opens it for twice as long, up to ``longest_pause_ms``. Times are in ms of any
    clock that does not run backwards.
    """

    __slots__ = (
        "_failures",
        "_first_ms",
        "_in_a_row",
        "_longest_ms",
        "_open_until_ms",
        "_pause_ms",
        "_probing",
        "reason",
    )

    def __init__(
        self,
        failures: int = FAILURES,
        first_pause_ms: int = FIRST_PAUSE_MS,
        longest_pause_ms: int = LONGEST_PAUSE_MS,
    ) -> None:
        self._failures = failures
        self._first_ms = first_pause_ms
        self._longest_ms = longest_pause_ms
        self._pause_ms = 0
        self._in_a_row = 0
        self._open_until_ms: int | None = None
        self._probing = False
        self.reason = ""
        """What the last failure was, for people."""

    @property
    def closed(self) -> bool:
        """Whether the endpoint counts as alive."""
        return self._open_until_ms is None

    def may_ask(self, now_ms: int) -> bool:
        """Whether a question may be sent now: always when closed, one at a time when half-open."""
        if self._open_until_ms is None:
            return True
        return now_ms >= self._open_until_ms and not self._probing

    def skipped(self, now_ms: int) -> bool:
        """Whether it is to be shown as one that does not answer: from when it opens until it answers, also while it is
        probed; and no longer when nobody has had anything to ask of it for :data:`UNASKED_MS`.
        """
        if self._open_until_ms is None:
            return False
        return self._probing or now_ms < self._open_until_ms + UNASKED_MS

    def begin(self) -> None:
        """A question is on its way; when half-open it is the probe. Each ends in success or failure."""
        self._probing = not self.closed

    def succeeded(self) -> None:
        """A check endpoint answered, whatever its verdict: closed, and all is forgotten."""
        self._open_until_ms = None
        self._probing = False
        self._in_a_row = 0

    def give_up(self) -> None:
        """A question was not sent after all: when half-open, the next one is the probe."""
        self._probing = False

    def failed(self, now_ms: int, reason: str) -> None:
        """It could not be reached, did not answer in time, or is no check endpoint.

        Questions that were on their way when the breaker opened may fail later: they change nothing.
        """
        self.reason = reason
        if self.closed:
            self._in_a_row += 1
            if self._in_a_row >= self._failures:
                self._pause_ms = self._first_ms
                self._open_until_ms = now_ms + self._pause_ms
        elif self._probing:
            self._probing = False
            self._pause_ms = min(2 * self._pause_ms, self._longest_ms)
            self._open_until_ms = now_ms + self._pause_ms
