"""Which offset may be committed while later records are done before earlier ones."""


class OffsetWindow:
    """The offsets under way in one partition: :attr:`committable` is the lowest not yet done."""

    def __init__(self, first: int) -> None:
        self.committable = first
        self._next = first
        self._done: set[int] = set()

    def begin(self, offset: int) -> None:
        """A record was taken; offsets between it and the one before hold no record."""
        self._done.update(range(self._next, offset))
        self._next = offset + 1
        self._advance()

    def finish(self, offset: int) -> None:
        """A record is dealt with."""
        self._done.add(offset)
        self._advance()

    def _advance(self) -> None:
        while self.committable in self._done:
            self._done.remove(self.committable)
            self.committable += 1
