"""Whose signature counts: which keys may sign what is written of a producer group, as one table."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from access.policy import AccessPolicy, AccountRole


class Writer(StrEnum):
    """Who a record says has written it, or must have."""

    PRODUCER = "producer"
    """A half message; an op with ``cb-source=producer``."""
    CHECK = "check"
    """An op with ``cb-source=check``."""
    OPERATOR = "operator"
    """An op with ``cb-source=operator``."""
    JOB = "job"
    """A half message with ``cb-held``."""


class SignerRule(NamedTuple):
    """Whose keys may sign: those of the group's own accounts, and of accounts with one of the roles."""

    own: bool
    roles: frozenset[AccountRole]
    what: str
    """As people read it."""


SIGNERS: Mapping[Writer, SignerRule] = {
    # the job moves what consumers have sent back, as their group
    Writer.PRODUCER: SignerRule(own=True, roles=frozenset({AccountRole.JOB}), what="a key of its account"),
    Writer.CHECK: SignerRule(
        own=False, roles=frozenset({AccountRole.CHECKS}), what="a key of an account with the role checks"
    ),
    Writer.OPERATOR: SignerRule(
        own=False, roles=frozenset({AccountRole.OPERATOR}), what="a key of an account with the role operator"
    ),
    Writer.JOB: SignerRule(own=False, roles=frozenset({AccountRole.JOB}), what="a key of an account with the role job"),
}


def signs(policy: AccessPolicy, group: str, writer: Writer) -> frozenset[str] | None:
    """Ids of the keys that may sign; None where nothing has to be signed: no account of the group has a key."""
    own = {key for name in policy.of_group(group) for key in policy.accounts[name].keys}
    if not own:
        return None
    rule = SIGNERS[writer]
    return policy.keys_of_roles(rule.roles) | (own if rule.own else set())
