"""What a gateway answers to a check: what a client says, unless its message is there twice. No I/O.

Half messages of one id: a client that heard nothing in time has sent its message again, to another process.

It goes on with one of them, and nobody here knows which, until it is ended. So the rule is: **one is rolled back only
when another has been committed**, which loses no message; and of those of which none is, a checker's *commit* counts
for the last alone. A rollback of one says nothing of the others: it may be a client that tidies up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Self

from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from gateway.asking import Asking, ClientAnswer, Heard

NAMED = "named-"
"""So an id begins that was made of the client's own name for a message: only such a one may be there twice."""


class Twins(NamedTuple):
    """Half messages of one id, on one partition."""

    places: tuple[HalfPosition, ...]
    """In the order of their offsets."""
    committed: HalfPosition | None = None
    """That which was committed first."""

    @classmethod
    def of(cls, places: Iterable[HalfPosition], commits: Iterable[HalfPosition]) -> Self:
        """Given the half messages of this id that ops commit, in the order in which those were written."""
        found = tuple(sorted(places))
        return cls(found, next((half for half in commits if half in found), None))

    def overrule(self, half: HalfPosition) -> bool:
        """Whether another one has been committed: this one is to be rolled back, whatever a checker says."""
        return self.committed is not None and self.committed != half

    def let_commit(self, half: HalfPosition) -> bool:
        """Whether a checker's commit is to count for this one."""
        return half == (self.committed or self.places[-1])


Whole = Callable[[CheckRequest], Awaitable[CheckRequest | None]]
"""Gives a check the message that was left out of it; None: that cannot be had now."""
FindTwins = Callable[[HalfPosition, str, str], Awaitable[Twins | None]]
"""Half messages that have the id and the group of one, which is among them; None: that cannot be said now."""


class Checking:
    """Answers the checks that come in. ``count`` is told what becomes of each."""

    def __init__(self, asking: Asking, whole: Whole, twins: FindTwins, count: Callable[[str], None]) -> None:
        self._asking = asking
        self._whole = whole
        self._twins = twins
        self._count = count

    async def answer(self, check: CheckRequest) -> ClientAnswer | None:
        """What became of a transaction; None: nobody is there to be asked, or Kafka does not say what is needed."""
        said = await self._answer(check)
        if isinstance(said, Twins):
            self._count("overruled")
            why = f"its client has sent it again, and the half message at {said.committed} was committed"
            return ClientAnswer(LocalTransactionState.ROLLBACK, why)
        self._count("nobody" if said is None else said.state.value)
        return said

    async def _answer(self, check: CheckRequest) -> ClientAnswer | Twins | None:
        """Twins: another one of them was committed."""
        found, twins = await asyncio.gather(self._whole(check), self._find(check))
        if found is None or twins is None:
            return None
        if len(twins.places) > 1:
            return await self._of_several(found, twins)
        return await self._asking.ask(found)

    async def _of_several(self, check: CheckRequest, twins: Twins) -> ClientAnswer | Twins | None:
        half = check.half
        if twins.overrule(half):
            return twins
        # of the one that counts an answer is an end: it may be the client's own, which must not be lost
        heard = Heard.AS_END if twins.let_commit(half) else Heard.AS_WORD
        said = await self._asking.ask(check, heard)
        if said is None or said.state is not LocalTransactionState.COMMIT:
            return said
        now = await self._find(check)  # its end may have come meanwhile
        if now is None:
            return None
        if now.overrule(half):
            return now
        if now.let_commit(half):
            return said
        waits = f"its client has sent it again: the half message at {now.places[-1]} is asked about first"
        return ClientAnswer(LocalTransactionState.UNKNOWN, waits)

    async def _find(self, check: CheckRequest) -> Twins | None:
        return await self._twins(check.half, check.transaction_id, check.group)
