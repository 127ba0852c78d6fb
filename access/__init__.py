"""Who may do what: the rights of each role on Kafka's own lists, as one table without I/O."""

from access.entries import AccessEntry, compare, entries_of, kafka_acls_lines
from access.roles import Role, rights_of
from checkback.wire.rights import Operation, ResourceKind, Right, Whom

__all__ = [
    "AccessEntry",
    "Operation",
    "ResourceKind",
    "Right",
    "Role",
    "Whom",
    "compare",
    "entries_of",
    "kafka_acls_lines",
    "rights_of",
]
