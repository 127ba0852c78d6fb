"""The oracle: what the producers' database says against what consumers got."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

_WHOLE_BYTES = 4_096


def imprint(value: bytes | None) -> bytes | None:
    """A value as both sides keep it: a long one as its length and its SHA-256, so that a run fits into memory."""
    if value is None or len(value) <= _WHOLE_BYTES:
        return value
    return b"%d bytes, SHA-256 %s" % (len(value), hashlib.sha256(value).hexdigest().encode())


class Body(NamedTuple):
    """A message as a consumer must find it, byte for byte (see :func:`imprint`); headers in their order."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Judgement:
    """Ids of the messages with which something is wrong; all four empty is what we promise."""

    expected: int
    delivered: int
    lost: list[str] = field(default_factory=list)
    """In the database, decided, and not delivered."""
    undecided: list[str] = field(default_factory=list)
    """In the database, and nobody had decided them, or their topic had not taken them, when the time was over."""
    repeated: list[str] = field(default_factory=list)
    """Delivered more than once."""
    leaked: list[str] = field(default_factory=list)
    """Delivered, and not in the database."""
    changed: list[str] = field(default_factory=list)
    """Delivered with another topic, key, value or headers."""

    @property
    def holds(self) -> bool:
        """Whether every message in the database was delivered once as it was, and no other."""
        return self.nothing_wrong and not self.undecided

    @property
    def nothing_wrong(self) -> bool:
        """Whether nothing is known to be wrong, though some messages may still have come."""
        return not (self.lost or self.repeated or self.leaked or self.changed)

    def without_undecided(self, ids: Collection[str]) -> "Judgement":
        """The same, where those of the lost ones that nobody has decided are not called so."""
        lost = [name for name in self.lost if name not in ids]
        return replace(self, lost=lost, undecided=sorted(set(self.lost) - set(lost)))

    def __str__(self) -> str:
        wrong = {"lost": self.lost, "repeated": self.repeated, "leaked": self.leaked, "changed": self.changed}
        said = ", ".join(f"{len(ids)} {name}" for name, ids in wrong.items())
        return f"{said}, {len(self.undecided)} not decided yet" if self.undecided else said


def judge(sent: Mapping[str, Body], delivered: Mapping[str, Sequence[Body]]) -> Judgement:
    """Compare both sides, by message id."""
    return Judgement(
        expected=len(sent),
        delivered=sum(len(copies) for copies in delivered.values()),
        lost=sorted(sent.keys() - delivered.keys()),
        repeated=sorted(name for name, copies in delivered.items() if len(copies) > 1),
        leaked=sorted(delivered.keys() - sent.keys()),
        changed=sorted(name for name in sent.keys() & delivered.keys() if delivered[name][0] != sent[name]),
    )
