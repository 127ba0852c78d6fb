"""Rights on Kafka's access control lists: what they are, what applications need, and what is said where one lacks.

The rows of producers and consumers of the table in ``docs/security.md``; the others are in ``access/roles.py``, which
an application does not have. ``Read`` and ``Write`` bring ``Describe`` with them, in Kafka as here. Names are those of
Kafka's tools.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from checkback.exceptions import NotAllowedError
from checkback.wire.groups import limit_group
from checkback.wire.lanes import ID_PREFIX
from checkback.wire.protocol import Topics


class ResourceKind(StrEnum):
    """Of a resource, as the option of ``kafka-acls`` that names it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class Operation(StrEnum):
    """What may be done with a resource."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


@dataclass(frozen=True)
class Right:
    """One operation on one resource, or on all whose names begin so."""

    operation: Operation
    kind: ResourceKind
    name: str
    prefixed: bool = False
    why: str = field(default="", compare=False)
    """What is not possible without it."""

    def __str__(self) -> str:
        """As messages and pages name it."""
        kind = {ResourceKind.TRANSACTIONAL_ID: "transactional id"}.get(self.kind, self.kind.value)
        if self.prefixed:
            return f"{self.operation} on {kind}s that begin with '{self.name}'"
        return f"{self.operation} on the {kind} {self.name}"


@dataclass(frozen=True)
class Whom:
    """For which of a role's bearers the rights are wanted."""

    topics: Topics = field(default_factory=Topics)
    group: str = ""
    """A producer's or a consumer's."""
    real: tuple[str, ...] = ()
    """Topics that messages go to; a name that ends with ``*`` stands for all that begin so."""
    direct: bool = False
    """Whether a producer delivers itself: ``delivery="direct"``."""


def of_producer(whom: Whom) -> Iterator[Right]:
    """What a producer of a group needs."""
    own = whom.topics
    yield write(own.half, "half messages")
    yield write(own.op, "commit and rollback")
    yield write(own.producers, "where its check endpoint answers")
    yield from of_limits(own, whom.group)
    if not whom.direct:
        yield from of_real(whom, Operation.DESCRIBE, "a warning where there is no such topic")
        return
    yield from of_real(whom, Operation.WRITE, "direct delivery")
    yield from of_lanes(f"{ID_PREFIX}{whom.group}:", own.progress)


def of_gateway(whom: Whom) -> Iterator[Right]:
    """What a gateway needs for all of its clients."""
    own = whom.topics
    yield write(own.half, "half messages")
    yield write(own.op, "commit and rollback")
    yield write(own.producers, "that somebody can be asked")
    yield read(own.half, "messages that are too large for their check, and what was sent again")
    yield read(own.op, "which of those that were sent again is committed")
    yield from of_limits(own, "")
    yield from of_real(whom, Operation.WRITE, "NORMAL and FIFO messages")


def of_limits(own: Topics, group: str) -> Iterator[Right]:
    """What reads whether a producer group is over a limit; empty: each one."""
    why = "refuses to send while the group is over a limit"
    yield Right(Operation.DESCRIBE, ResourceKind.GROUP, limit_group(group), prefixed=not group, why=why)
    yield Right(Operation.DESCRIBE, ResourceKind.TOPIC, own.progress, why=why)


def of_lanes(lane: str, progress: str) -> Iterator[Right]:
    """What a producer needs to deliver itself, beside its topics, by lanes whose ids begin so."""
    yield Right(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, lane, prefixed=True, why="direct delivery: its lanes")
    yield Right(Operation.READ, ResourceKind.GROUP, lane, prefixed=True, why="direct delivery: the ledger")
    yield read(progress, "direct delivery: where the ledger lies")


def of_settling(progress: str) -> Iterator[Right]:
    """What ends any group's lane and reads its ledger."""
    yield Right(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, ID_PREFIX, prefixed=True, why="settles lanes: ends one")
    yield Right(Operation.DESCRIBE, ResourceKind.GROUP, ID_PREFIX, prefixed=True, why="settles lanes: the ledger")
    yield Right(Operation.DESCRIBE, ResourceKind.TOPIC, progress, why="settles lanes: where the ledger lies")


def of_consumer(whom: Whom) -> Iterator[Right]:
    """What a push consumer of a group needs, with retries and dead letters."""
    own, group = whom.topics, whom.group
    yield from of_real(whom, Operation.READ, "messages")
    yield Right(Operation.READ, ResourceKind.GROUP, group, why="membership and offsets")
    yield read(own.retry(group), "messages that come again")
    for topic in (own.retry(group), own.dead(group)):
        yield Right(
            Operation.CREATE, ResourceKind.TOPIC, topic, why="makes it where it is missing; else make it yourself"
        )
    yield write(own.later, "sending failed messages back")
    yield write(own.dead(group), "dead letters")
    yield read(own.control, "hears of resets")
    yield write(own.control, "says that it has reset")
    name = f"{own.prefix}consumer.{group}."
    yield Right(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, name, prefixed=True, why="sending back, once")


def read(topic: str, why: str) -> Right:
    """Read on one topic."""
    return Right(Operation.READ, ResourceKind.TOPIC, topic, why=why)


def write(topic: str, why: str) -> Right:
    """Write on one topic."""
    return Right(Operation.WRITE, ResourceKind.TOPIC, topic, why=why)


def of_real(whom: Whom, operation: Operation, why: str) -> Iterator[Right]:
    """The operation on the topics that messages go to."""
    for name in whom.real:
        begins = name.removesuffix("*")
        # Kafka has a name of its own for all
        yield Right(
            operation, ResourceKind.TOPIC, begins or name, prefixed=name.endswith("*") and begins != "", why=why
        )


_KINDS = {
    ResourceKind.TOPIC: re.compile(r"(?i)topic.?authorization"),
    ResourceKind.GROUP: re.compile(r"(?i)group.?authorization"),
    ResourceKind.TRANSACTIONAL_ID: re.compile(r"(?i)transactional.?id.?authorization"),
}
"""By what the errors of both clients are told apart."""


def not_allowed(who: str, error: object, rights: Sequence[Right]) -> NotAllowedError:
    """What to raise when Kafka refuses one of its resources: names the rights that may be lacking.

    ``who``: "the consumer"; ``rights``: what it needs. Where the error names a resource, only those on it are said;
    where it says only of what kind, all of that kind. ``Create`` is meant only where the error says so.
    """
    said = str(error) if isinstance(error, NotAllowedError) else repr(error)
    words = set(re.findall(r"[^\s'\"{}()\[\],]+", f"{said} {error}"))
    usual = [right for right in rights if (right.operation is Operation.CREATE) == (Operation.CREATE in words)]
    of_kind = [right for right in usual if _KINDS[right.kind].search(said)] or usual
    named = [right for right in of_kind if any(_names(word, right) for word in words)] or of_kind
    wanted = ", ".join(dict.fromkeys(str(right) for right in named))
    return NotAllowedError(f"Kafka does not allow {who} one of its resources: grant its user {wanted}. ({said})")


def _names(word: str, right: Right) -> bool:
    word = word.rstrip(":.") if not right.prefixed else word
    return word.startswith(right.name) if right.prefixed else word == right.name
