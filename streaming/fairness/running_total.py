"""A sum over batches whose beginning is counted later, while batches continue."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class RunningTotal(Generic[T]):
    """What batches change, added up. Nobody knows it before :meth:`begin_with` has said what there was."""

    add: Callable[[T, T], T]
    now: T | None = field(init=False, default=None)
    """None: not known."""
    _known_from: int = field(init=False, default=-1)
    _since_start: list[tuple[int, T]] = field(init=False, default_factory=list)

    def changed(self, batch: int, by: T) -> None:
        """Take in what a batch has changed."""
        if self.now is None:
            self._since_start.append((batch, by))
        elif batch > self._known_from:
            self.now = self.add(self.now, by)

    def begin_with(self, batch: int, there: T) -> None:
        """Take in what there was when this batch had ended. Does nothing when it is known already."""
        if self.now is not None:
            return
        for number, by in self._since_start:
            if number > batch:
                there = self.add(there, by)
        self.now = there
        self._known_from = batch
        self._since_start.clear()
