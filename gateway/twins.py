"""Half messages of one id: a client that heard nothing in time has sent its message again, to another process. No I/O.

It goes on with one of them, and nobody here knows which, until it is ended. So the rule is: **one is rolled back only
when another has been committed**, which loses no message; and of those of which none is, a checker's *commit* counts
for the last alone. A rollback of one says nothing of the others: it may be a client that tidies up.
"""

from collections.abc import Iterable
from typing import NamedTuple, Self

from checkback.wire.protocol import Action, HalfPosition

NAMED = "named-"
"""So an id begins that was made of the client's own name for a message: only such a one may be there twice."""


class OpRead(NamedTuple):
    """What an op says."""

    half: HalfPosition
    action: str
    source: str


class Twins(NamedTuple):
    """Half messages of one id, on one partition."""

    places: tuple[HalfPosition, ...]
    """In the order of their offsets."""
    committed: HalfPosition | None = None
    """That which was committed first."""

    @classmethod
    def of(cls, places: Iterable[HalfPosition], ops: Iterable[OpRead]) -> Self:
        """Of the ops on this id, in the order in which they were written."""
        found = tuple(sorted(places))
        return cls(found, next((op.half for op in ops if op.action == Action.COMMIT and op.half in found), None))

    def overrule(self, half: HalfPosition) -> bool:
        """Whether another one has been committed: this one is to be rolled back, whatever a checker says."""
        return self.committed is not None and self.committed != half

    def let_commit(self, half: HalfPosition) -> bool:
        """Whether a checker's commit is to count for this one."""
        return half == (self.committed or self.places[-1])
