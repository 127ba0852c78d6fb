"""A lane's ledger: the places of half messages that it has delivered, as text beside a group's offset.

Places are in ranges, in order: ``3:81923-81931,4:55``. No place is ``-``: nothing at all is what stands beside an
offset that somebody has set by hand. Where it is kept: :data:`OFFSET` of :data:`PARTITION` of ``cb.progress``, of the
group of the lane's own transactional id.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Self

from checkback.exceptions import ProtocolError
from checkback.wire.groups import END, without_end
from checkback.wire.protocol import HalfPosition

MAX_LEDGER_BYTES = 4_096
"""Kafka's ``offset.metadata.max.bytes``, as it comes; the zero byte at the end is one of them."""
PARTITION, OFFSET = 0, 0
_NONE = "-"
_RANGE = re.compile(r"(0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,14})(?:-([1-9][0-9]{0,14}))?")

_Runs = dict[int, list[tuple[int, int]]]


class Ledger:
    """A set of places. ``place in ledger`` looks for one; ``str(ledger)`` is what is stored. It never changes."""

    def __init__(self, places: Iterable[HalfPosition] = ()) -> None:
        self._runs: _Runs = {}
        for partition, group in groupby(sorted(set(places)), key=lambda place: place[0]):
            self._runs[partition] = _joined(offset for _, offset in group)

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, tuple) or len(place) != 2:
            return False
        runs = self._runs.get(place[0], [])
        at = bisect_right(runs, (place[1], float("inf"))) - 1
        return at >= 0 and place[1] <= runs[at][1]

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._runs == other._runs

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return ",".join(_spelled(partition, *run) for partition, runs in self._runs.items() for run in runs) or _NONE

    def __repr__(self) -> str:
        return f"Ledger.parse({str(self)!r})"

    @property
    def metadata(self) -> str:
        """What is stored beside the offset, its end marked: see :mod:`checkback.wire.groups`."""
        return f"{self}{END}"

    @property
    def fits(self) -> bool:
        """Whether Kafka stores it."""
        return len(self.metadata) <= MAX_LEDGER_BYTES  # all of it is ASCII

    @classmethod
    def parse(cls, metadata: str | None) -> Self:
        """Read what a lane has stored.

        Raises:
            ProtocolError: it is no ledger, or not spelled as we spell one. Then nobody can know what was delivered.
        """
        text = without_end(metadata)
        made = cls()
        for piece in text.split(",") if text != _NONE else ():
            found = _RANGE.fullmatch(piece)
            if found is None:
                raise ProtocolError(f"A lane's ledger must be ranges like 3:81-89,4:55, not {piece!r:.80}.")
            first = int(found[2])
            made._runs.setdefault(int(found[1]), []).append((first, int(found[3] or first)))
        if len(text) >= MAX_LEDGER_BYTES or str(made) != text or not made._is_in_order():
            raise ProtocolError("A lane's ledger must have its ranges in order, apart, and fit into 4,096 bytes.")
        return made

    def _is_in_order(self) -> bool:
        if list(self._runs) != sorted(self._runs):
            return False
        every = self._runs.values()
        return all(first <= last for runs in every for first, last in runs) and all(
            end + 1 < begin for runs in every for (_, end), (begin, _) in pairwise(runs)
        )


def _joined(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of numbers that follow each other; they come in order, each once."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] + 1 == offset:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return runs


def _spelled(partition: int, first: int, last: int) -> str:
    return f"{partition}:{first}" if first == last else f"{partition}:{first}-{last}"
