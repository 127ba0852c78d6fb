"""What people call a transaction: its id, or the beginning of one that is no other's."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

SHORTEST = 4
"""Characters of a beginning: fewer are a slip of the finger."""
TOO_SHORT = f"A beginning needs {SHORTEST} characters."


class Identified(Protocol):
    """What has a transaction's id."""

    @property
    def transaction_id(self) -> str:
        """As its producer says."""


One = TypeVar("One", bound=Identified)


def called(found: Sequence[One], name: str) -> list[One]:
    """Those with this id; when there are none, those whose id begins so: of several ids, where it is ambiguous."""
    same = [one for one in found if one.transaction_id == name]
    if same or len(name) < SHORTEST:
        return same
    return [one for one in found if one.transaction_id.startswith(name)]


def ambiguous(found: Sequence[Identified]) -> bool:
    """Whether these have several ids."""
    return len({one.transaction_id for one in found}) > 1
