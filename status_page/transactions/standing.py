"""How far the lists of the page can be relied on."""

import time
from collections.abc import Callable
from typing import NamedTuple


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


class ReadingProgress:
    """What the thread that reads has said last. ``clock`` gives seconds and never runs backwards."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._read = ListStanding(problem="Nobody reads the topics yet.")
        self._away: tuple[float, str] | None = None

    def standing(self) -> ListStanding:
        """How it stands now."""
        read, away = self._read, self._away
        if away is None:
            return read
        since, problem = away
        return read._replace(away_seconds=max(0.0, self.clock() - since), problem=problem)

    def begun(self, missing: str = "") -> None:
        """The topics are read from their beginning; ``missing`` says which of them are not there."""
        self._away = None
        self._read = ListStanding(problem=missing)

    def foreign(self, rows: int) -> None:
        """So many rows more cannot be the job's."""
        self._read = self._read._replace(foreign=self._read.foreign + rows)

    def looked(self, behind: int) -> None:
        """Kafka has said where the topics end: so many records behind what was read."""
        self._away = None
        here = not self._read.problem
        self._read = self._read._replace(complete=here and (self._read.complete or behind == 0), behind=behind)

    def away(self, problem: str) -> None:
        """Kafka does not answer, or what it says cannot be kept."""
        since = self.clock() if self._away is None else self._away[0]
        self._away = since, problem
