"""The rights that each role needs on Kafka's own access control lists, and no others: the table of docs/security.md.

And which of them a program lacks, by what Kafka says that it may do. No I/O.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum

from checkback.exceptions import ConfigurationError
from checkback.wire.groups import GROUPS, checkers_group, display_group, is_own, own_groups
from checkback.wire.protocol import lawful_group, lawful_topic
from checkback.wire.rights import (
    Operation,
    ResourceKind,
    Right,
    Whom,
    of_consumer,
    of_gateway,
    of_producer,
    of_real,
    of_settling,
    read,
    write,
)

FOR_PAGE = "status page"
"""Why the job has rights without which it does all but show something."""
Allowed = Mapping[tuple[ResourceKind, str], Collection[str] | None]
"""Operations by resource, as Kafka names them (``DESCRIBE_CONFIGS``); None: it does not say, and is believed."""


class Role(StrEnum):
    """Who talks to Kafka."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    CHECKS = "checks"
    JOB = "job"
    OPERATOR = "operator"
    READER = "reader"
    GATEWAY = "gateway"


def rights_of(role: Role, whom: Whom) -> tuple[Right, ...]:
    """What this role needs, in the order of the page.

    Raises:
        ConfigurationError: a group or topics are needed and not given, or reach what is Checkback's own.
        ProtocolError: a name that cannot be a group's or a topic's.
    """
    if role in (Role.PRODUCER, Role.CONSUMER):
        _refuse_unnamed(role, whom)
    if role in (Role.PRODUCER, Role.CONSUMER, Role.GATEWAY):
        _refuse_our_own(role, whom)
    if role in (Role.PRODUCER, Role.CONSUMER, Role.JOB, Role.GATEWAY):
        _refuse_no_topics(role, whom)
    rights = tuple(dict.fromkeys(_ROLES[role](whom)))
    return tuple(one for one in rights if not any(_brings(other, one) for other in rights if other != one))


def _refuse_our_own(role: Role, whom: Whom) -> None:
    """Of clients, whose group or topics somebody else may have chosen."""
    if role is Role.CONSUMER and is_own(whom.group, whom.topics):
        raise ConfigurationError(f"Group {whom.group} is one of Checkback's own: a consumer has another.")
    for name in whom.real:
        begins = name.removesuffix("*")
        if name == "*":  # whoever says so means it
            continue
        if any(one == name or (begins != name and one.startswith(begins)) for one in whom.topics.all()):
            raise ConfigurationError(f"{name} reaches topics of Checkback's own: name the real ones.")


def _brings(right: Right, other: Right) -> bool:
    """Whether who has this one need not be given the other, which only describes."""
    return (
        other.operation is Operation.DESCRIBE
        and right.operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
        and right.kind is other.kind
        and (other.name.startswith(right.name) if right.prefixed else right.name == other.name and not other.prefixed)
    )


def _checks(whom: Whom) -> Iterator[Right]:
    own = whom.topics
    yield read(own.check, "what is to be checked")
    yield read(own.producers, "where to ask")
    yield Right(Operation.READ, ResourceKind.GROUP, checkers_group(own), why="sharing the checks")
    yield write(own.op, "answers")
    yield read(own.half, "copies of signed half messages")
    yield from of_settling(own.progress)


def _job(whom: Whom) -> Iterator[Right]:
    own = whom.topics
    for_page = (own.producers, own.status, own.parked, own.rejected, own.audit)
    for topic in (own.half, own.op, own.later, *for_page, own.progress):
        yield read(topic, _JOB_READS.get(topic.removeprefix(own.prefix), FOR_PAGE))
    for topic in (own.half, own.op, own.check, own.parked, own.rejected, own.status, own.progress, own.audit):
        yield write(topic, _JOB_WRITES.get(topic.removeprefix(own.prefix), "what its name says"))
    yield Right(Operation.DESCRIBE, ResourceKind.TOPIC, own.control, why="whether it is there")
    for topic in own.all():
        yield Right(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, topic, why="whether it loses nothing")
    for operation, why in ((Operation.WRITE, "delivery"), (Operation.DESCRIBE_CONFIGS, "what a topic takes")):
        yield from of_real(whom, operation, why)
        for begins in (own.retry(""), own.dead("")):
            yield Right(operation, ResourceKind.TOPIC, begins, prefixed=True, why=f"{why}, to consumer groups")
    yield Right(Operation.READ, ResourceKind.GROUP, GROUPS, prefixed=True, why="progress and claim")
    yield Right(Operation.READ, ResourceKind.GROUP, display_group(own), why="how far it has read, for tools")
    yield Right(Operation.READ, ResourceKind.GROUP, own.later, why="how far that topic is moved")
    yield Right(Operation.DESCRIBE, ResourceKind.GROUP, checkers_group(own), why=FOR_PAGE)
    yield Right(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, GROUPS, prefixed=True, why="batches, once")


_JOB_READS = {
    "half": "half messages",
    "op": "ops",
    "later": "messages that come again",
    "progress": "offsets in transactions",
}
_JOB_WRITES = {"half": "messages that are held", "op": "decisions on the status page", "check": "checks to be made"}


def _reader(whom: Whom) -> Iterator[Right]:
    own = whom.topics
    for topic in own.all():
        yield read(topic, "commands and pages that only show")
    for topic in own.all():
        yield Right(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, topic, why="'checkback topics list'")
    yield Right(Operation.DESCRIBE, ResourceKind.GROUP, GROUPS, prefixed=True, why="whether a job runs")
    for group in own_groups(own)[1:]:
        yield Right(Operation.DESCRIBE, ResourceKind.GROUP, group, why="how far it is")


def _operator(whom: Whom) -> Iterator[Right]:
    yield from _reader(whom)
    yield write(whom.topics.op, "decides")
    yield write(whom.topics.audit, "tells who decides")
    yield from of_settling(whom.topics.progress)


_ROLES: Mapping[Role, Callable[[Whom], Iterator[Right]]] = {
    Role.PRODUCER: of_producer,
    Role.CONSUMER: of_consumer,
    Role.CHECKS: _checks,
    Role.JOB: _job,
    Role.OPERATOR: _operator,
    Role.READER: _reader,
    Role.GATEWAY: of_gateway,
}


def _refuse_unnamed(role: Role, whom: Whom) -> None:
    lawful_group(whom.group)
    if role is Role.PRODUCER and whom.direct and ":" in whom.group:
        raise ConfigurationError(
            f"The producer group {whom.group!r} has a colon: in Kafka's lists its lanes belong to the group before the "
            "colon, too. Choose a name without one for direct delivery."
        )
    if role is Role.CONSUMER:
        lawful_topic(whom.group)  # its name becomes part of topics' names


def _refuse_no_topics(role: Role, whom: Whom) -> None:
    if not whom.real:
        raise ConfigurationError(f"Name the topics of the {role}: without one there is nothing it may send or read.")
    for name in whom.real:
        if name != "*":
            lawful_topic(name.removesuffix("*"))


def lacking(rights: Iterable[Right], allowed: Allowed) -> list[Right]:
    """Those that are not allowed; of a prefix, where one of the resources that begin so is not.

    Of resources that nothing is said of none is lacking.
    """
    return [
        right
        for right in rights
        if any(
            operations is not None and right.operation.name not in operations
            for (kind, name), operations in allowed.items()
            if kind is right.kind and (name.startswith(right.name) if right.prefixed else name == right.name)
        )
    ]
