"""Checks that were answered *unreachable*, and are asked all the same once somebody is there. No Kafka, no clock.

The job asks again by itself, but only after a pause, which grows to minutes. So that a group that comes back is asked
at once, its checks of that pause are remembered; they lie in ``cb.check`` and are read again from there.
"""

from typing import NamedTuple

_NONE = range(0)


class _Check(NamedTuple):
    transaction: str
    offset: int
    time_ms: int
    """When it was written, by Kafka's clock."""


class Kept:
    """Of one route in one partition. Of each transaction, the newest check."""

    def __init__(self, noted: range = _NONE) -> None:
        """``noted``: offsets among which an earlier service has left some; it has not said which."""
        self._noted = noted
        self._passed: set[str] = set()
        """Transactions that need none of those noted any more."""
        self._waiting: dict[str, _Check] = {}
        self._under_way: dict[int, _Check] = {}

    def __bool__(self) -> bool:
        return bool(self._noted or self._waiting or self._under_way)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way) + len(self._passed)

    @property
    def most(self) -> int:
        """So many transactions it concerns, at most: each of the offsets noted may be one's."""
        return len(self._waiting) + len(self._under_way) + len(self._noted)

    @property
    def first(self) -> int | None:
        """Where to read again from; None: none waits."""
        offsets = [check.offset for check in self._waiting.values()]
        return min([*offsets, self._noted.start] if self._noted else offsets, default=None)

    @property
    def committable(self) -> int | None:
        """The first offset of those that wait or are under way; None: there is none."""
        first = self.first
        return min([*self._under_way, *([] if first is None else [first])], default=None)

    def keep(self, transaction: str, offset: int, time_ms: int) -> None:
        """Nobody could be asked about a check, and that has been answered. ``time_ms``: when it was written."""
        before = self._waiting.get(transaction)
        if before is None or before.offset < offset:
            self._waiting[transaction] = _Check(transaction, offset, time_ms)
        self._pass(transaction)

    def keep_again(self, offset: int) -> bool:
        """Nobody could be asked this time, either; False when it was not under way."""
        check = self._under_way.pop(offset, None)
        if check is not None:
            self.keep(*check)
        return check is not None

    def supersede(self, transaction: str) -> None:
        """The job has written another check of a transaction."""
        self._waiting.pop(transaction, None)
        self._pass(transaction)

    def take(self, transaction: str, offset: int, time_ms: int) -> bool:
        """A record was read again; whether it is to be asked: then it is under way."""
        check = self._waiting.get(transaction)
        if check is not None and check.offset == offset:
            del self._waiting[transaction]
        elif offset not in self._noted or transaction in self._passed:
            return False
        self._pass(transaction)
        self._under_way[offset] = _Check(transaction, offset, time_ms)
        return True

    def under_way(self, offset: int) -> bool:
        """Whether it is being asked."""
        return offset in self._under_way

    def finish(self, offset: int) -> bool:
        """One is dealt with; False when it was not under way."""
        return self._under_way.pop(offset, None) is not None

    def read_to(self, offset: int) -> None:
        """Before this offset there is none left to read."""
        self._waiting = {transaction: check for transaction, check in self._waiting.items() if check.offset >= offset}
        self._noted = range(max(offset, self._noted.start), self._noted.stop)
        self._forget_passed()

    def forget_old(self, time_ms: int, *, noted: bool) -> None:
        """Forget those written before then: the job has written others. ``noted``: those noted as well."""
        self._waiting = {transaction: check for transaction, check in self._waiting.items() if check.time_ms >= time_ms}
        if noted:
            self._noted = _NONE
        self._forget_passed()

    def _pass(self, transaction: str) -> None:
        if self._noted:
            self._passed.add(transaction)

    def _forget_passed(self) -> None:
        if not self._noted:
            self._passed.clear()
