"""Which offset may be committed while later records are done before earlier ones."""


class OffsetWindow:
    """The offsets under way in one partition: :attr:`committable` is the lowest not yet done."""

    def __init__(self, first: int) -> None:
        self.committable = first
        self.next = first
        """The first that was not begun."""
        self._done: set[int] = set()

    def begin(self, offset: int) -> None:
        """A record was taken; offsets between it and the one before hold no record."""
        self._done.update(range(self.next, offset))
        self.next = offset + 1
        self._advance()

    def finish(self, offset: int) -> None:
        """A record is dealt with."""
        if offset >= self.committable:
            self._done.add(offset)
            self._advance()

    def under_way(self, offset: int) -> bool:
        """Whether a record was begun and is not dealt with."""
        return self.committable <= offset < self.next and offset not in self._done

    def done_behind(self, offset: int) -> set[int]:
        """Those that are dealt with behind this one."""
        return {done for done in self._done if done > offset}

    def _advance(self) -> None:
        while self.committable in self._done:
            self._done.remove(self.committable)
            self.committable += 1
