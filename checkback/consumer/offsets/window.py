"""Which offset may be stored for a partition while later messages are done before earlier ones. No Kafka, no clock."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence


class OffsetWindow:
    """The messages of one partition that were taken and are not done yet.

    What may be stored is :attr:`position`, the next offset to read. It passes over messages that are done and have
    none before them that is not: of 0 to 5, with 0 done it is 1; with 5 done as well still 1; with 1 to 4 as well 6.

    Offsets may have gaps, of any size: where a transaction ended, where a topic was compacted. Only messages under way
    take memory. Not for several threads at once.
    """

    def __init__(self, first: int, done: Sequence[range] = ()) -> None:
        """Begin at the stored position.

        ``done``: what is done behind it all the same, as :meth:`done_ahead` gave it, in its order.
        """
        self.next = first
        """The first offset that was not taken."""
        self._under_way: OrderedDict[int, None] = OrderedDict()  # in order of their offsets, as they were taken
        self._known = [known for known in done if known.stop > first]
        self._pass_known()

    @property
    def position(self) -> int:
        """The next offset to read, for whoever begins again: all before it are done."""
        for offset in self._under_way:
            return offset
        return self.next

    @property
    def span(self) -> int:
        """From the position to the last offset taken; what a message that takes its time lets grow."""
        return self.next - self.position

    @property
    def held(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def taken(self, offset: int) -> bool:
        """A message was read, perhaps again; whether it is to be worked on: False when it is done.

        Messages come in the order of their offsets; those between two of them are not there.
        """
        if offset < self.next:
            return offset in self._under_way
        self.next = offset
        self._pass_known()
        if self.next > offset:
            return False
        self.next = offset + 1
        self._under_way[offset] = None
        self._pass_known()
        return True

    def reached(self, offset: int) -> None:
        """All messages before this offset were taken: what lies between is none, as where a transaction ended."""
        if offset > self.next:
            self.next = offset
            self._pass_known()

    def done(self, offset: int) -> None:
        """A message is dealt with. Done twice is done once; one that was never taken changes nothing."""
        self._under_way.pop(offset, None)

    def under_way(self, offset: int) -> bool:
        """Whether a message was taken and is not done."""
        return offset in self._under_way

    def done_ahead(self, besides: Iterable[int] = ()) -> tuple[int, list[range]]:
        """What to store: the position, and what is done behind it.

        ``besides``: what is to count as done, too. A gap counts as done: nothing will ever be there.
        """
        besides = frozenset(besides)
        position, ranges = self.next, list[range]()
        after = None
        for offset in self._under_way:
            if offset in besides:
                continue
            if after is None:
                position = offset
            elif after < offset:
                ranges.append(range(after, offset))
            after = offset + 1
        if after is None:
            return position, list(self._known)
        if after < self.next:
            ranges.append(range(after, self.next))
        return position, [*ranges, *self._known]

    def done_behind(self, offset: int) -> Iterator[int]:
        """Offsets that were taken and are done, behind this one."""
        first = max(offset + 1, self.position)
        return (one for one in range(first, self.next) if one not in self._under_way)

    def _pass_known(self) -> None:
        """Step over what is known to be done, and forget what lies behind."""
        while self._known and self._known[0].start <= self.next:
            self.next = max(self.next, self._known.pop(0).stop)
