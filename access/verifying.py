"""Whose signature counts, as one table, and whether a record of a producer group with keys has one of those."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from typing import NamedTuple

from access.policy import AccessPolicy, AccountRole, Unnamed
from checkback.wire.protocol import SIGNATURE, Topics
from checkback.wire.signed_records import MOST_PLAIN_BYTES, WINDOW_MS, SigningKey, WrittenSignature

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
_OF_ROLE = "a key of an account with the role {}"


def _of_role(role: AccountRole) -> SignerRule:
    return SignerRule(own=False, roles=frozenset({role}), what=_OF_ROLE.format(role), window_ms=SERVICES_WINDOW_MS)


SIGNERS: Mapping[Writer, SignerRule] = {
    # the job moves what consumers have sent back, as their group
    Writer.PRODUCER: SignerRule(own=True, roles=frozenset({AccountRole.JOB}), what=_OWN_OR_JOB),
    Writer.CHECK: _of_role(AccountRole.CHECKS),
    Writer.OPERATOR: _of_role(AccountRole.OPERATOR),
    Writer.JOB: _of_role(AccountRole.JOB),
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


_MOST_GROUPS = 10_000
_Keys = Mapping[bytes, SigningKey]


class SignedRecord(NamedTuple):
    """What is judged of a record."""

    group: str
    writer: Writer
    signature: bytes | None
    time_ms: int
    """Kafka's."""
    ours: bytes
    """The headers of ours that are signed: ``signed_records.spelled``."""
    content: bytes | None
    """``signed_records.spelled_content``. None: it is not here, and is judged when it is read again."""


class Verifier:
    """Of one policy. ``keys`` are the secrets; a key without one fits nothing."""

    def __init__(self, policy: AccessPolicy, keys: Mapping[str, SigningKey]) -> None:
        remembering = lru_cache(_MOST_GROUPS)  # a client can invent groups
        self.may_sign: Callable[[str, Writer], _Keys | None] = remembering(partial(_may_sign, policy, keys))
        """Of a group and a writer: the keys that may sign, by id; None if nothing has to be signed."""

    def needed(self, group: str, writer: Writer = Writer.PRODUCER) -> bool:
        """Whether what a writer writes of a group has to be signed."""
        return self.may_sign(group, writer) is not None

    def reason(self, record: SignedRecord, place: bytes) -> str:
        """Why a record is not taken; empty: it is. ``place``: ``signed_records.place_of``."""
        may = self.may_sign(record.group, record.writer)
        if may is None:
            return ""
        said = WrittenSignature.parse(record.signature)
        needed = f"{WRITES[record.writer]} of group {record.group} needs {SIGNERS[record.writer].what}"
        if said is None:
            missing = "is not what a signature looks like" if record.signature else "is missing"
            why = f"group {record.group} has keys" if self.needed(record.group) else needed
            return f"{why}, and {SIGNATURE} {missing}"
        if said.key_id not in may:
            other = said.key_id.decode(errors="replace")
            return f"it is signed with key {other:.64}; {needed}"
        return _unfit(said, may[said.key_id], record, place)


def _may_sign(policy: AccessPolicy, keys: Mapping[str, SigningKey], group: str, writer: Writer) -> _Keys | None:
    may = signs(policy, group, writer)
    return None if may is None else {name.encode(): keys[name] for name in keys.keys() & may}


def _unfit(said: WrittenSignature, key: SigningKey, record: SignedRecord, place: bytes) -> str:
    if said.hashed is None and (record.content is None or len(record.content) > MOST_PLAIN_BYTES):
        return WITHOUT_HASH
    if not said.fits(key, place, record.ours, record.content):
        what = "changed headers" if said.hashed else "a changed record"
        return f"its signature does not fit key {key.id}: another secret, another place, or {what}"
    window_ms = SIGNERS[record.writer].window_ms
    if abs(record.time_ms - said.time_ms) > window_ms:
        return _far_away(record.time_ms - said.time_ms, window_ms)
    if record.content is not None and not said.same_content(record.content):
        return CHANGED
    return ""


WRITES = {
    Writer.PRODUCER: "what a producer writes",
    Writer.CHECK: "the answer to a check",
    Writer.OPERATOR: "what an operator decides",
    Writer.JOB: "what the job holds",
    Writer.RETRY: "a retry",
}
WITHOUT_HASH = f"its content has more than {MOST_PLAIN_BYTES:,} bytes, and no hash in {SIGNATURE}"
CHANGED = "its key, value or headers are not those that were signed"


def _far_away(late_ms: int, window_ms: int) -> str:
    when = f"{late_ms // 1000} s before Kafka had it" if late_ms > 0 else f"{-late_ms // 1000} s after Kafka had it"
    return f"it was signed {when}, more than {window_ms // 1000} s: it is a copy, or a clock is wrong"
