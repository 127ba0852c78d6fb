"""Files that people change while a program runs: taken when they have stayed as they are for a moment."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

_SETTLED_SECONDS = 1.0
"""Unchanged for so long a file is not being written any more: half of one may be lawful, and mean another thing."""

Stamp = tuple[int, ...]
"""Equal while the files are the same."""


class SettledFiles:
    """``clock`` gives seconds and does not run backwards."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = monotonic) -> None:
        self._paths = tuple(paths)
        self._clock = clock
        self._seen: tuple[Stamp | None, float] = (None, 0.0)

    def stamp(self) -> Stamp:
        """What the files are now.

        Raises:
            OSError: one cannot be looked at.
        """
        found = [path.stat() for path in self._paths]
        return tuple(number for one in found for number in (one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino))

    def settled(self, stamp: Stamp) -> bool:
        """Whether they have been so for a second; call it each time that they are looked at."""
        seen, since = self._seen
        if seen != stamp:
            self._seen = (stamp, self._clock())
            return False
        return self._clock() - since >= _SETTLED_SECONDS
