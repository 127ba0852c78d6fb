"""Half messages of one id: a client that heard nothing in time has sent its message again, to another process. No I/O.

It goes on with one of them, and nobody here knows which, until it is ended. So the rule is: **one is rolled back only
when another has been decided**, which never loses a message; and of those of which nobody has decided, a checker's
*commit* counts for the last alone.
"""

from collections.abc import Iterable
from typing import NamedTuple, Self

from checkback.wire.protocol import Action, HalfPosition, Source

NAMED = "named-"
"""So an id begins that was made of the client's own name for a message: only such a one may be there twice."""


class OpRead(NamedTuple):
    """What an op says."""

    half: HalfPosition
    action: str
    source: str

    @property
    def decides(self) -> bool:
        """Whether the transaction's fate is known by it.

        A check's rollback does not say so: it may be what became of the others here.
        """
        rolled_back = self.action == Action.ROLLBACK and self.source != Source.CHECK
        return self.action == Action.COMMIT or rolled_back


class Twins(NamedTuple):
    """Half messages of one id, on one partition."""

    places: tuple[HalfPosition, ...]
    """In the order of their offsets."""
    decided: HalfPosition | None = None
    """That which was decided first."""

    @classmethod
    def of(cls, places: Iterable[HalfPosition], decisions: Iterable[OpRead]) -> Self:
        """Of the decisions on this id, in the order in which they were written."""
        found = tuple(sorted(places))
        return cls(found, next((one.half for one in decisions if one.decides and one.half in found), None))

    def overrule(self, half: HalfPosition) -> bool:
        """Whether another one has been decided: this one is to be rolled back, whatever a checker says."""
        return self.decided is not None and self.decided != half

    def let_commit(self, half: HalfPosition) -> bool:
        """Whether a checker's commit is to count for this one."""
        return half == (self.decided or self.places[-1])
