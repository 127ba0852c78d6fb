"""How far the lists of the page can be relied on."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from status_page.words import duration


class ListStanding(NamedTuple):
    """How far the lists can be relied on, at a moment."""

    complete: bool = False
    """Whether both topics were read to their end, since the start or since one of them was begun again."""
    behind: int = 0
    """Records that were not read yet when it was last looked."""
    away_seconds: float | None = None
    """For how long Kafka has not answered; None: it answers."""
    problem: str = ""
    """What is wrong, and what to do; empty: nothing."""
    foreign: int = 0
    """Rows that the job cannot have written, and that are in no list."""

    @property
    def lacking(self) -> str:
        """Why the lists are not complete; empty: they are."""
        return "" if self.complete else self.problem or "The list is still being read."


_NEVER: Mapping[str, float] = {}
_NONE: Mapping[str, object] = {}


class ReadingProgress:
    """What the thread that reads has said last. ``clock`` gives seconds and never runs backwards.

    ``rewritten``: within how many seconds the job writes all that it has of a topic again, for one that was made again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, rewritten: Mapping[str, float] = _NEVER) -> None:
        self.clock = clock
        self._rewritten = rewritten
        self._identities: dict[str, object] = {}
        self._whole_at: dict[str, float] = {}
        self._read = ListStanding(problem="Nobody reads the topics yet.")
        self._away: tuple[float, str] | None = None

    def standing(self) -> ListStanding:
        """How it stands now."""
        read, away = self._read, self._away
        topic, whole_at = max(self._whole_at.items(), key=lambda one: one[1], default=("", 0.0))
        left = whole_at - self.clock()
        if topic and left > 0 and not read.problem:
            gone = f"{topic} was deleted and made again: what the job wrote there before may be missing"
            read = read._replace(complete=False, problem=f"{gone} for up to {duration(left)}.")
        if away is None:
            return read
        since, problem = away
        return read._replace(away_seconds=max(0.0, self.clock() - since), problem=problem)

    def begun(self, identities: Mapping[str, object] = _NONE, missing: str = "") -> None:
        """The topics are read from their beginning; ``missing`` says which of them are not there.

        ``identities``: what tells each from one of the same name that was made again; None: it is not there.
        """
        for topic, identity in identities.items():
            if identity is not None:
                if self._identities.setdefault(topic, identity) != identity:
                    self._whole_at[topic] = self.clock() + self._rewritten.get(topic, 0.0)
                self._identities[topic] = identity
        self._away = None
        self._read = ListStanding(problem=missing)

    def foreign(self, rows: int) -> None:
        """So many rows more cannot be the job's."""
        self._read = self._read._replace(foreign=self._read.foreign + rows)

    def looked(self, behind: int) -> bool:
        """Kafka has said where the topics end: so many records behind what was read. Whether all was read once."""
        self._away = None
        here = not self._read.problem
        self._read = self._read._replace(complete=here and (self._read.complete or behind == 0), behind=behind)
        return self._read.complete

    def away(self, problem: str) -> None:
        """Kafka does not answer, or what it says cannot be kept."""
        since = self.clock() if self._away is None else self._away[0]
        self._away = since, problem
