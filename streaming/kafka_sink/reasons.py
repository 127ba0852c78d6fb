"""Why messages of a batch were held, parked or rejected: what the job's log says beside their numbers."""

import json
from collections import Counter
from collections.abc import Iterable

Reasons = Counter[tuple[str, str]]
"""How many, by what became of them (``held``, ``parked``, ``rejected``) and why."""

_MOST_KINDS = 50
_MOST_CHARACTERS = 200
"""A reason may have a part of a record in it."""
_OTHERS = "for other reasons"


class ReasonCounts:
    """Of one state partition of one batch. Bounded: whoever writes may make every reason a new one."""

    def __init__(self) -> None:
        self._counts: Reasons = Counter()

    def add(self, what: str, reason: str) -> None:
        """Count one message."""
        key = (what, reason[:_MOST_CHARACTERS])
        if key not in self._counts and len(self._counts) >= _MOST_KINDS:
            key = (what, _OTHERS)
        self._counts[key] += 1

    def to_json(self) -> str:
        """For :func:`reasons_of`."""
        return json.dumps([[*key, number] for key, number in self._counts.items()])


def reasons_of(texts: Iterable[str]) -> Reasons:
    """The sum of what :meth:`ReasonCounts.to_json` gave."""
    summed: Reasons = Counter()
    for text in texts:
        for what, reason, number in json.loads(text):
            summed[what, reason] += number
    return summed
