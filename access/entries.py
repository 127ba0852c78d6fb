"""Entries of Kafka's access control lists, compared with what a role needs. No I/O."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from shlex import quote

from checkback.wire.rights import Operation, Right

EVERYBODY = "User:*"
ANYWHERE = "*"
_ALL, _ANY_NAME = "All", "*"
_BRINGS_DESCRIBE = frozenset({"Read", "Write", "Delete", "Alter"})
"""As Kafka's StandardAuthorizer has it: whoever may do one of these may ask what is there, too."""


@dataclass(frozen=True)
class AccessEntry:
    """One line of the lists, as Kafka gives it."""

    principal: str
    operation: str
    """Of Kafka's, also those that no role needs: ``All``, ``Alter``."""
    kind: str
    name: str
    prefixed: bool = False
    allows: bool = True
    host: str = ANYWHERE

    def __str__(self) -> str:
        """As messages name it."""
        where = f"{self.kind} {self.name}{'...' if self.prefixed else ''}"
        return f"{'' if self.allows else 'not '}{self.operation} on {where}" + (
            "" if self.host == ANYWHERE else f" from {self.host}"
        )


@dataclass(frozen=True)
class Comparison:
    """What a principal has beside what it needs."""

    lacking: tuple[Right, ...]
    denied: tuple[tuple[Right, AccessEntry], ...]
    """Allowed, and denied by an entry, which wins."""
    excess: tuple[AccessEntry, ...]
    """Entries of its own that allow more than any of its rights needs."""


def entries_of(rights: Sequence[Right], principal: str) -> tuple[AccessEntry, ...]:
    """The lines that give these rights, and no others, to a principal."""
    return tuple(AccessEntry(principal, one.operation.value, one.kind.value, one.name, one.prefixed) for one in rights)


def kafka_acls_lines(rights: Sequence[Right], principal: str, bootstrap_servers: str) -> Iterator[str]:
    """Lines of a shell that give these rights: one for each resource."""
    for (kind, name, prefixed), same in groupby(sorted(rights, key=_resource), key=_resource):
        operations = [f"--operation {one.operation}" for one in same]
        pattern = ["--resource-pattern-type prefixed"] if prefixed else []
        where = [f"kafka-acls.sh --bootstrap-server {quote(bootstrap_servers)}", "--add"]
        yield " ".join(
            [*where, f"--allow-principal {quote(principal)}", *operations, f"--{kind} {quote(name)}", *pattern]
        )


def _resource(right: Right) -> tuple[str, str, bool]:
    return right.kind.value, right.name, right.prefixed


def compare(rights: Sequence[Right], principal: str, entries: Collection[AccessEntry]) -> Comparison:
    """Hold what the lists say of a principal, and of everybody, against what it needs.

    An entry that holds from one host only gives nothing for certain, and one that denies takes away.
    """
    its = [entry for entry in entries if entry.principal in (principal, EVERYBODY)]
    allowing = [entry for entry in its if entry.allows and entry.host == ANYWHERE]
    lacking = tuple(right for right in rights if not any(_gives(entry, right) for entry in allowing))
    there = [right for right in rights if right not in lacking]
    denied = tuple((right, entry) for right in there for entry in its if not entry.allows and _touches(entry, right))
    excess = tuple(
        entry
        for entry in its
        if entry.allows and entry.principal == principal and not any(_within(entry, right) for right in rights)
    )
    return Comparison(lacking, denied, excess)


def _gives(entry: AccessEntry, right: Right) -> bool:
    """Whether all that the right says is allowed by the entry."""
    return _operation_in(right.operation, entry.operation) and _covers(entry, right)


def _within(entry: AccessEntry, right: Right) -> bool:
    """Whether the entry allows nothing that the right does not."""
    return _operation_in(entry.operation, right.operation) and _covers(right, entry)


def _touches(entry: AccessEntry, right: Right) -> bool:
    """Whether an entry that denies takes away something of the right."""
    needed = (right.operation, _ALL, Operation.DESCRIBE)  # whoever may not see a topic, cannot read it either
    return entry.operation in needed and (_covers(entry, right) or _covers(right, entry))


def _operation_in(wanted: str, given: str) -> bool:
    return given in (wanted, _ALL) or (wanted == Operation.DESCRIBE and given in _BRINGS_DESCRIBE)


def _covers(wide: AccessEntry | Right, narrow: AccessEntry | Right) -> bool:
    """Whether the resources of one are among those of the other."""
    if wide.kind != narrow.kind:
        return False
    if wide.prefixed:
        return narrow.name.startswith(wide.name)
    # Kafka has a literal name for all
    return wide.name == _ANY_NAME or (wide.name == narrow.name and not narrow.prefixed)
