"""The breakers of all groups' endpoints: those not needed for long are forgotten, and their number is bounded."""

from collections import OrderedDict
from dataclasses import dataclass

from checkers.breaker import Breaker

KEPT_MS = 600_000
"""A breaker not touched for that long is forgotten; many times its longest pause."""
_PER_GROUP = 1_000
_GROUPS = 10_000
_MOST_ANSWERING = 10_000


@dataclass(slots=True)
class _KeptBreaker:
    breaker: Breaker
    touched_ms: int


class EndpointBreakers:
    """By group and URL: what a group's checks find out about an address is nothing to other groups."""

    def __init__(self, kept_ms: int = KEPT_MS, per_group: int = _PER_GROUP, groups: int = _GROUPS) -> None:
        self._kept_ms = kept_ms
        self._per_group = per_group
        self._most_groups = groups
        # the group, and in it the URL, that was touched last at the end
        self._groups: OrderedDict[str, OrderedDict[str, _KeptBreaker]] = OrderedDict()
        self._answering: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def get(self, group: str, url: str) -> Breaker | None:
        """The breaker of an endpoint that has failed lately; None: it is as good as new."""
        of_group = self._groups.get(group)
        kept = None if of_group is None else of_group.get(url)
        return None if kept is None else kept.breaker

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
        kept = of_group.setdefault(url, _KeptBreaker(Breaker(), now_ms))
        kept.touched_ms = now_ms
        kept.breaker.failed(now_ms, reason)
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

    def _forget_old(self, of_group: OrderedDict[str, _KeptBreaker], now_ms: int) -> None:
        while len(of_group) > self._per_group or self._old(next(iter(of_group.values())), now_ms):
            of_group.popitem(last=False)
        while len(self._groups) > 1:
            newest = next(reversed(next(iter(self._groups.values())).values()))  # of the group touched longest ago
            if len(self._groups) <= self._most_groups and not self._old(newest, now_ms):
                return
            self._groups.popitem(last=False)

    def _old(self, kept: _KeptBreaker, now_ms: int) -> bool:
        return now_ms - kept.touched_ms >= self._kept_ms
