"""Whose signature counts: which keys may sign what is written of a producer group, as one table."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from access.policy import AccessPolicy, AccountRole, Unnamed
from checkback.wire.protocol import Topics
from checkback.wire.signed_records import WINDOW_MS

SERVICES_WINDOW_MS = 86_400_000
"""For what the job, check services and operators sign: what the job itself wrote is not lost to a clock or a delay.

A held message may be on its way for as long as the job's transaction, and other records are signed by the clock of a
machine that may be off by ``job.clock_tolerance``. A copy of an op does nothing new: it names a place.
"""


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
    RETRY = "retry"
    """A half message for the retry topic or the dead letters of its own consumer group."""


class SignerRule(NamedTuple):
    """Whose keys may sign: those of the group's own accounts, and of accounts with one of the roles."""

    own: bool
    roles: frozenset[AccountRole]
    what: str
    """As people read it."""
    window_ms: int = WINDOW_MS
    """How far the signature's time may be from Kafka's time of the record, in either direction."""


_OWN_OR_JOB = "a key of its account, or of an account with the role job"
SIGNERS: Mapping[Writer, SignerRule] = {
    # the job moves what consumers have sent back, as their group
    Writer.PRODUCER: SignerRule(own=True, roles=frozenset({AccountRole.JOB}), what=_OWN_OR_JOB),
    Writer.CHECK: SignerRule(
        own=False,
        roles=frozenset({AccountRole.CHECKS}),
        what="a key of an account with the role checks",
        window_ms=SERVICES_WINDOW_MS,
    ),
    Writer.OPERATOR: SignerRule(
        own=False,
        roles=frozenset({AccountRole.OPERATOR}),
        what="a key of an account with the role operator",
        window_ms=SERVICES_WINDOW_MS,
    ),
    Writer.JOB: SignerRule(
        own=False,
        roles=frozenset({AccountRole.JOB}),
        what="a key of an account with the role job",
        window_ms=SERVICES_WINDOW_MS,
    ),
    Writer.RETRY: SignerRule(own=True, roles=frozenset({AccountRole.JOB}), what=_OWN_OR_JOB),
}
_BY_JOB = frozenset({Writer.JOB, Writer.RETRY})


def writer_of_half(group: str, topic: str, own: Topics) -> Writer:
    """Who writes half messages of a group for a topic, if they are not held."""
    return Writer.RETRY if topic in (own.retry(group), own.dead(group)) else Writer.PRODUCER


def signs(policy: AccessPolicy, group: str, writer: Writer) -> frozenset[str] | None:
    """Ids of the keys that may sign; None if nothing has to be signed, because no account of the group has a key.

    Consumer groups need no account: if ``other_groups`` is deny, their retries need the job's signature.
    """
    accounts = policy.of_group(group)
    own = {key for name in accounts for key in policy.accounts[name].keys}
    by_job = writer in _BY_JOB and not accounts and policy.other_groups is Unnamed.DENY and policy.signed
    if not own and not by_job:
        return None
    rule = SIGNERS[writer]
    return policy.keys_of_roles(rule.roles) | (own if rule.own else set())
