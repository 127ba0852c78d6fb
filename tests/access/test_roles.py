"""Who needs what, and what is said of a principal that has something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access import (
    AccessEntry,
    Operation,
    ResourceKind,
    Right,
    Role,
    Whom,
    compare,
    entries_of,
    kafka_acls_lines,
    rights_of,
)
from access.entries import Comparison
from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.protocol import Topics
from checkback.wire.rights import not_allowed

WHOM = Whom(group="points", real=("shop.orders", "shop.returns.*"))
USER = "User:points"


@pytest.mark.parametrize("role", list(Role))
def test_exactly_a_roles_rights_are_neither_too_few_nor_too_many(role: Role) -> None:
    rights = rights_of(role, WHOM)
    assert len(rights) == len(set(rights))
    assert all(right.why for right in rights)
    assert compare(rights, USER, entries_of(rights, USER)) == Comparison((), (), ())


@given(st.sampled_from(list(Role)), st.booleans(), st.data())
def test_what_is_taken_away_is_lacking_and_what_is_added_is_too_much(
    role: Role,
    direct: bool,  # noqa: FBT001  (drawn)
    data: st.DataObject,
) -> None:
    rights = rights_of(role, Whom(group="points", real=("shop.orders",), direct=direct))
    entries = entries_of(rights, USER)
    gone = data.draw(st.integers(0, len(entries) - 1))
    left = entries[:gone] + entries[gone + 1 :]
    extra = AccessEntry(USER, "Write", "topic", "somebody.elses")
    found = compare(rights, USER, (*left, extra))
    assert found.excess == (extra,)
    implied = rights[gone].operation is Operation.DESCRIBE and compare(rights, USER, left).lacking == ()
    assert found.lacking == (() if implied else (rights[gone],))


def test_only_the_job_and_a_gateway_could_copy_a_half_message() -> None:
    half = WHOM.topics.half
    needed = {(Operation.READ, half), (Operation.WRITE, half)}
    both = {role for role in Role if needed <= {(right.operation, right.name) for right in rights_of(role, WHOM)}}
    assert both == {Role.JOB, Role.GATEWAY}


def entry(operation: str, name: str, **more: object) -> AccessEntry:
    return AccessEntry(USER, operation, "topic", name, **more)  # type: ignore[arg-type]  # its fields


RIGHT = Right(Operation.WRITE, ResourceKind.TOPIC, "cb.half")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (entry("Write", "cb.half"), ([], [], [])),
        (entry("All", "cb.half"), ([], [], ["All on topic cb.half"])),
        (entry("Write", "*"), ([], [], ["Write on topic *"])),
        (entry("Write", "cb.", prefixed=True), ([], [], ["Write on topic cb...."])),
        (entry("Write", "cb."), ([RIGHT], [], ["Write on topic cb."])),
        (entry("Read", "cb.half"), ([RIGHT], [], ["Read on topic cb.half"])),
        (entry("Describe", "cb.half"), ([RIGHT], [], [])),
        (entry("Write", "cb.half", host="10.0.0.1"), ([RIGHT], [], [])),
        (AccessEntry("User:*", "Write", "topic", "cb.half"), ([], [], [])),
        (AccessEntry("User:other", "Write", "topic", "cb.half"), ([RIGHT], [], [])),
        (AccessEntry(USER, "Write", "group", "cb.half"), ([RIGHT], [], ["Write on group cb.half"])),
    ],
    ids=str,
)
def test_one_entry_for_one_right(given: AccessEntry, expected: tuple[list[Right], list[str], list[str]]) -> None:
    found = compare([RIGHT], USER, [given])
    assert (list(found.lacking), list(map(str, found.denied)), [str(one) for one in found.excess]) == expected


@pytest.mark.parametrize(
    ("denied", "takes_away"),
    [
        (entry("Write", "cb.half", allows=False), True),
        (entry("Describe", "cb.", prefixed=True, allows=False), True),
        (AccessEntry("User:*", "All", "topic", "*", allows=False), True),
        (entry("Read", "cb.half", allows=False), False),
        (entry("Write", "cb.op", allows=False), False),
        (entry("Write", "cb.half", allows=False, host="10.0.0.1"), True),
    ],
    ids=str,
)
def test_an_entry_that_denies_takes_away(denied: AccessEntry, takes_away: bool) -> None:  # noqa: FBT001  (pytest gives it)
    found = compare([RIGHT], USER, [entry("Write", "cb.half"), denied])
    assert (found.lacking, found.denied) == ((), ((RIGHT, denied),) if takes_away else ())


def test_a_producer_has_transactional_ids_only_where_it_delivers_itself() -> None:
    def ids(*, direct: bool) -> list[str]:
        rights = rights_of(Role.PRODUCER, Whom(group="shop", real=("o",), direct=direct))
        return [right.name for right in rights if right.kind is ResourceKind.TRANSACTIONAL_ID]

    assert (ids(direct=False), ids(direct=True)) == ([], ["checkback-lane:shop:"])


def test_applications_may_write_to_no_topic_from_which_the_job_delivers_anywhere() -> None:
    """But for producers' ``cb.half`` and ``cb.op``, where a group's policy is the bound."""
    written = {
        role: {r.name for r in rights_of(role, WHOM) if r.operation is Operation.WRITE and r.kind is ResourceKind.TOPIC}
        for role in (Role.PRODUCER, Role.CONSUMER, Role.READER)
    }
    assert written[Role.PRODUCER] == {"cb.half", "cb.op", "cb.producers"}
    assert written[Role.CONSUMER] == {"cb.later", "cb.dlq.points", "cb.control"}
    assert written[Role.READER] == set()


def test_another_prefix_and_patterns() -> None:
    rights = rights_of(Role.CONSUMER, Whom(Topics("test."), "points", ("shop.*", "*")))
    assert Right(Operation.READ, ResourceKind.TOPIC, "shop.", prefixed=True) in rights
    assert Right(Operation.READ, ResourceKind.TOPIC, "*") in rights
    assert not any(right.name.startswith("cb.") for right in rights)


@pytest.mark.parametrize(
    ("role", "whom", "kind", "said"),
    [
        (Role.PRODUCER, Whom(real=("o",)), ProtocolError, "cb-group"),
        (Role.PRODUCER, Whom(group="shop"), ConfigurationError, "Name the topics of the producer"),
        (Role.PRODUCER, Whom(group="a:b", real=("o",), direct=True), ConfigurationError, "has a colon"),
        (Role.CONSUMER, Whom(group="a b", real=("o",)), ProtocolError, "name Kafka allows"),
        (Role.CONSUMER, Whom(group="a", real=("o o",)), ProtocolError, "name Kafka allows"),
        (Role.JOB, Whom(), ConfigurationError, "Name the topics of the job"),
        (Role.PRODUCER, Whom(group="a", real=("o", "cb.rejected")), ConfigurationError, "reaches topics of"),
        (Role.CONSUMER, Whom(group="a", real=("cb.*",)), ConfigurationError, "reaches topics of"),
        (Role.CONSUMER, Whom(group="cb.checkers", real=("o",)), ConfigurationError, "is one of Checkback's own"),
        (Role.CONSUMER, Whom(group="checkback-x", real=("o",)), ConfigurationError, "is one of Checkback's own"),
    ],
)
def test_what_cannot_be_granted(role: Role, whom: Whom, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        rights_of(role, whom)


def test_lines_for_a_shell_are_quoted_and_one_for_each_resource() -> None:
    rights = rights_of(Role.PRODUCER, Whom(group="it's", real=("o",), direct=True))
    lines = list(kafka_acls_lines(rights, "User:CN=a b", "h:1"))
    assert lines[0].startswith(
        "kafka-acls.sh --bootstrap-server h:1 --add --allow-principal 'User:CN=a b' --operation "
    )
    assert any(
        line.endswith("""--transactional-id 'checkback-lane:it'"'"'s:' --resource-pattern-type prefixed""")
        for line in lines
    )
    assert len(lines) == len({(right.kind, right.name) for right in rights})


@pytest.mark.parametrize(
    ("error", "named"),
    [
        ("TopicAuthorizationFailedError('cb.op')", ["Write on the topic cb.op"]),
        ("[Error 29] TopicAuthorizationFailedError: {'cb.check'}", ["Read on the topic cb.check"]),
        ("GroupAuthorizationFailedError('cb.checkers')", ["Read on the group cb.checkers"]),
        ("KafkaError{code=TRANSACTIONAL_ID_AUTHORIZATION_FAILED,val=53}", ["Write on transactional ids that begin"]),
        ("TopicAuthorizationFailedError()", ["cb.check", "cb.producers", "cb.op", "cb.half", "cb.progress"]),
    ],
)
def test_an_error_names_the_rights_that_may_be_lacking(error: str, named: list[str]) -> None:
    said = str(not_allowed("the check service", error, rights_of(Role.CHECKS, Whom()))).partition("(")[0]
    assert all(one in said for one in named)
    assert said.count(" on ") == len(named)
