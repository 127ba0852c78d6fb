"""When an endpoint that does not answer is skipped, and when it is tried again. No clock: time is passed in.

Of all groups' endpoints: breakers not needed for long are forgotten, and their number is bounded.
"""

from collections import OrderedDict
from dataclasses import dataclass

FAILURES = 5
FIRST_PAUSE_MS = 10_000
LONGEST_PAUSE_MS = 25_000
"""A group whose endpoint is back is asked within half a minute."""
UNASKED_MS = 60_000
"""Whoever has not been asked for so long after a pause was not needed: no check waits for it."""
KEPT_MS = 600_000
"""A breaker whose last failure is that long ago is forgotten; many times its longest pause."""
_PER_GROUP = 1_000
_GROUPS = 10_000
_MOST_ANSWERING = 10_000


@dataclass(slots=True, eq=False)
class Breaker:
    """Closed: asked. Open, after ``failures`` failures in a row: not asked for a pause. Then half-open: asked once.

    That one probe closes the breaker, or opens it for twice as long, up to ``longest_pause_ms``. Times are in ms of any
    clock that does not run backwards.
    """

    failures: int = FAILURES
    first_pause_ms: int = FIRST_PAUSE_MS
    longest_pause_ms: int = LONGEST_PAUSE_MS
    reason: str = ""
    """What the last failure was, for people."""
    failed_ms: int = 0
    """When that was."""
    _pause_ms: int = 0
    _in_a_row: int = 0
    _open_until_ms: int | None = None
    _probing: bool = False

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
        self.reason, self.failed_ms = reason, now_ms
        if self.closed:
            self._in_a_row += 1
            if self._in_a_row >= self.failures:
                self._pause_ms = self.first_pause_ms
                self._open_until_ms = now_ms + self._pause_ms
        elif self._probing:
            self._probing = False
            self._pause_ms = min(2 * self._pause_ms, self.longest_pause_ms)
            self._open_until_ms = now_ms + self._pause_ms


class EndpointBreakers:
    """By group and URL: what a group's checks find out about an address is nothing to other groups."""

    def __init__(self, kept_ms: int = KEPT_MS, per_group: int = _PER_GROUP, groups: int = _GROUPS) -> None:
        self._kept_ms = kept_ms
        self._per_group = per_group
        self._most_groups = groups
        # the group, and in it the URL, that failed last at the end
        self._groups: OrderedDict[str, OrderedDict[str, Breaker]] = OrderedDict()
        self._answering: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def get(self, group: str, url: str) -> Breaker | None:
        """The breaker of an endpoint that has failed lately; None: it is as good as new."""
        of_group = self._groups.get(group)
        return None if of_group is None else of_group.get(url)

    def answers(self, group: str, url: str) -> bool:
        """Whether the last that was heard of an endpoint is that it answered; of very many some are forgotten."""
        return (group, url) in self._answering

    def begin(self, group: str, url: str) -> None:
        """A question is on its way."""
        breaker = self.get(group, url)
        if breaker is not None:
            breaker.begin()

    def failed(self, group: str, url: str, now_ms: int, reason: str) -> None:
        """It could not be reached, or did not answer in time."""
        self._answering.pop((group, url), None)
        of_group = self._groups.setdefault(group, OrderedDict())
        of_group.setdefault(url, Breaker()).failed(now_ms, reason)
        of_group.move_to_end(url)
        self._groups.move_to_end(group)
        self._forget_old(of_group, now_ms)

    def succeeded(self, group: str, url: str) -> None:
        """It answered, whatever it said."""
        self._answering[group, url] = None
        self._answering.move_to_end((group, url))
        if len(self._answering) > _MOST_ANSWERING:
            self._answering.popitem(last=False)
        of_group = self._groups.get(group)
        if of_group is not None and of_group.pop(url, None) is not None and not of_group:
            del self._groups[group]

    def give_up(self, group: str, url: str) -> None:
        """A question was not asked after all: it says nothing about the endpoint."""
        breaker = self.get(group, url)
        if breaker is not None:
            breaker.give_up()

    def _forget_old(self, of_group: OrderedDict[str, Breaker], now_ms: int) -> None:
        while len(of_group) > self._per_group or self._old(next(iter(of_group.values())), now_ms):
            of_group.popitem(last=False)
        while len(self._groups) > 1:
            newest = next(reversed(next(iter(self._groups.values())).values()))  # of the group that failed longest ago
            if len(self._groups) <= self._most_groups and not self._old(newest, now_ms):
                return
            self._groups.popitem(last=False)

    def _old(self, breaker: Breaker, now_ms: int) -> bool:
        return now_ms - breaker.failed_ms >= self._kept_ms
