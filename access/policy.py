"""Which producer group may have messages delivered to which topic: the rules as one table, without I/O."""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cached_property, partial
from typing import Annotated, NamedTuple, Self

from pydantic import AfterValidator, ByteSize, Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.protocol import Topics, lawful_group, lawful_topic
from checkback.wire.signed_records import is_key_id
from conf.explaining import explained, loaded
from conf.sections import Section

MOST_BYTES = 262_144
"""Of a policy file: tasks are told all of it with each batch."""
_STAR = "*"


class Unnamed(StrEnum):
    """What becomes of what nobody has named."""

    ALLOW = "allow"
    DENY = "deny"


class AccountRole(StrEnum):
    """What an account may sign beside what its own groups write."""

    CHECKS = "checks"
    """Answers of a check service: ops with ``cb-source=check``."""
    OPERATOR = "operator"
    """Ops with ``cb-source=operator``."""
    JOB = "job"
    """Half messages that are held, and that consumers sent back."""


def _pattern(refuse_unlawful: Callable[[str], None], text: str) -> str:
    begins = text.removesuffix(_STAR)
    if _STAR in begins:
        raise ValueError(f"{text!r}: a star stands for the rest of a name, so at the end only")
    try:
        if text != _STAR:
            refuse_unlawful(begins)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    return text


def _key_id(text: str) -> str:
    if not is_key_id(text):
        raise ValueError(f"{text!r:.80} is not the id of a key: it has 1 to 64 of a-z A-Z 0-9 . _ -")
    return text


Groups = tuple[Annotated[str, AfterValidator(partial(_pattern, lawful_group))], ...]
TopicNames = tuple[Annotated[str, AfterValidator(partial(_pattern, lawful_topic))], ...]


Limit = Annotated[PositiveInt, Field(strict=True)]
AccountName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,255}$")]
"""Stands in reasons and logs."""


class AccountLimits(Section):
    """What all groups of an account together may have under way; ``quotas`` says it of each group. None: no limit."""

    open: Limit | None = None
    open_bytes: Annotated[ByteSize, Field(gt=0)] | None = None
    delayed: Limit | None = None
    parked: Limit | None = None
    endpoints: Limit | None = None
    """Of check endpoints that are announced: the check service's to judge."""

    @property
    def given(self) -> dict[str, int]:
        """Those of what the job has in its state, by name."""
        return {name: int(limit) for name, limit in self if limit is not None and name != "endpoints"}


class Account(Section):
    """What the producer groups of one team may do. A star at a name's end stands for the rest of it."""

    groups: Groups = ()
    topics: TopicNames = ()
    not_topics: TopicNames = ()
    other_topics: Unnamed = Unnamed.DENY
    """RocketMQ's ``defaultTopicPerm``."""
    keys: tuple[Annotated[str, AfterValidator(_key_id)], ...] = ()
    """Ids: with one, what its groups write has to be signed by one of them. Two while one takes the other's place."""
    roles: frozenset[AccountRole] = frozenset()
    limits: AccountLimits = AccountLimits()


_Accounts = dict[str, list[str]]
"""Names of accounts, by that of a group or by how it begins."""


class AccessPolicy(Section):
    """A whole policy file."""

    other_groups: Unnamed = Unnamed.DENY
    """Of groups that no account names: RocketMQ's ``defaultGroupPerm``."""
    accounts: dict[AccountName, Account] = Field(default_factory=dict)
    account_count: NonNegativeInt | None = Field(default=None, exclude=True)
    """How many accounts the file has: without it a change that removes most accounts is refused."""

    @model_validator(mode="after")
    def _it_has_all_its_accounts(self) -> Self:
        if self.account_count not in {None, len(self.accounts)}:
            raise ValueError(f"account_count is {self.account_count}, but the file has {len(self.accounts)} accounts")
        return self

    @model_validator(mode="after")
    def _each_key_is_one_accounts(self) -> Self:
        named = Counter(name for one in self.accounts.values() for name in one.keys)
        twice = sorted(name for name, number in named.items() if number > 1)
        if twice:
            whose = " and ".join(account for account, one in self.accounts.items() if twice[0] in one.keys)
            raise ValueError(f"key {twice[0]} is named twice, by {whose}: each key belongs to one account")
        return self

    def of_group(self, group: str) -> list[str]:
        """Names of the accounts that a group belongs to, in the order of the file.

        Takes as long with thousands of accounts as with one: anybody may make up names of groups.
        """
        names, beginnings, order = self._by_pattern
        found = {*names.get(group, ())}
        for length, accounts in beginnings.items():
            found.update(accounts.get(group[:length], ()))
        return sorted(found, key=order.__getitem__) if len(found) > 1 else list(found)

    @cached_property
    def _by_pattern(self) -> tuple[_Accounts, dict[int, _Accounts], dict[str, int]]:
        names: _Accounts = {}
        beginnings: dict[int, _Accounts] = {}
        for name, account in self.accounts.items():
            for pattern in account.groups:
                begins = pattern.removesuffix(_STAR)
                where = names if begins == pattern else beginnings.setdefault(len(begins), {})
                where.setdefault(begins, []).append(name)
        return names, beginnings, {name: at for at, name in enumerate(self.accounts)}

    def keys_of_roles(self, roles: frozenset[AccountRole]) -> frozenset[str]:
        """Ids of the keys of accounts with one of these roles."""
        return frozenset().union(*(keys for role, keys in self._by_role.items() if role in roles))

    @cached_property
    def signed(self) -> bool:
        """Whether there are groups with keys: then the job has a key as well."""
        return any(account.keys and account.groups for account in self.accounts.values())

    @cached_property
    def _by_role(self) -> dict[AccountRole, frozenset[str]]:
        return {
            role: frozenset(key for account in self.accounts.values() if role in account.roles for key in account.keys)
            for role in AccountRole
        }


class AccessRule(NamedTuple):
    """A row of the table. The first one that fits decides."""

    name: str
    when: str
    allowed: bool
    reason: str = ""
    """Why not, as operators read it; of ``group``, ``topic`` and ``account``."""


FOREIGN_GROUP = AccessRule(
    "foreign group",
    "a client of a gateway sends as a group that its account does not name",
    allowed=False,
    reason="account {account} may not send as group {group}, which it does not name",
)
OWN_RETRY = AccessRule("own retry", "the topic is `cb.retry.GROUP` or `cb.dlq.GROUP` of the group itself", allowed=True)
FOREIGN_RETRY = AccessRule(
    "foreign retry",
    "the topic is one of these of another group",
    allowed=False,
    reason="group {group} may not send to {topic}, which is another group's",
)
DENIED = AccessRule(
    "denied",
    "`not_topics` of an account of the group names the topic",
    allowed=False,
    reason="group {group} may not send to {topic}, which its account ({account}) denies",
)
ALLOWED = AccessRule("allowed", "`topics` of an account of the group names the topic", allowed=True)
OTHER_TOPIC_ALLOWED = AccessRule("other topic", '`other_topics = "allow"` in an account of the group', allowed=True)
OTHER_TOPIC_DENIED = AccessRule(
    "other topic",
    "the group has an account",
    allowed=False,
    reason="group {group} may not send to {topic}, which its account ({account}) does not name",
)
OTHER_GROUP_ALLOWED = AccessRule("other group", '`other_groups = "allow"`', allowed=True)
OTHER_GROUP_DENIED = AccessRule(
    "other group",
    "else",
    allowed=False,
    reason="group {group} may not send to {topic}: no account names that group",
)
RULES = (
    FOREIGN_GROUP,
    OWN_RETRY,
    FOREIGN_RETRY,
    DENIED,
    ALLOWED,
    OTHER_TOPIC_ALLOWED,
    OTHER_TOPIC_DENIED,
    OTHER_GROUP_ALLOWED,
    OTHER_GROUP_DENIED,
)


class AccessVerdict(NamedTuple):
    """What a policy says of one group and topic."""

    rule: AccessRule
    accounts: tuple[str, ...]
    """Those of the group that the rule rests on."""
    reason: str
    """Why not; empty: it may."""

    @property
    def allowed(self) -> bool:
        """Whether it may."""
        return self.rule.allowed


def judge(policy: AccessPolicy, group: str, topic: str, own: Topics, caller: str = "") -> AccessVerdict:
    """Whether a producer group may have messages delivered to a real topic.

    ``caller``: the account that somebody has shown to be his; empty: only the group is known.
    """
    foreign = bool(caller) and not acts_for(policy, caller, group)
    rule, accounts = (FOREIGN_GROUP, (caller,)) if foreign else _first(policy, group, topic, own)
    reason = rule.reason.format(group=group, topic=topic, account=" and ".join(accounts))
    return AccessVerdict(rule, accounts, reason)


def acts_for(policy: AccessPolicy, account: str, group: str) -> bool:
    """Whether an account may send as a group, end its transactions, and answer its checks."""
    return account in policy.of_group(group)


def _first(policy: AccessPolicy, group: str, topic: str, own: Topics) -> tuple[AccessRule, tuple[str, ...]]:
    if topic in (own.retry(group), own.dead(group)):
        return OWN_RETRY, ()
    if topic.startswith((own.retry(""), own.dead(""))):
        return FOREIGN_RETRY, ()
    names = policy.of_group(group)
    if not names:
        return (OTHER_GROUP_ALLOWED if policy.other_groups is Unnamed.ALLOW else OTHER_GROUP_DENIED), ()
    rules: tuple[tuple[AccessRule, Callable[[Account], bool]], ...] = (
        (DENIED, lambda account: _named(account.not_topics, topic)),
        (ALLOWED, lambda account: _named(account.topics, topic)),
        (OTHER_TOPIC_ALLOWED, lambda account: account.other_topics is Unnamed.ALLOW),
    )
    for rule, fits in rules:
        found = tuple(name for name in names if fits(policy.accounts[name]))
        if found:
            return rule, found
    return OTHER_TOPIC_DENIED, tuple(names)


def _named(patterns: tuple[str, ...], name: str) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith(_STAR) else name == one for one in patterns)


def policy_of(text: str) -> AccessPolicy:
    """What a policy file says.

    Raises:
        ConfigurationError: it is not TOML, has an unknown key or a wrong value (the message names each), or is empty.
    """
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(f"A policy file has at most {MOST_BYTES >> 10} KiB: let a star stand for many names.")
    try:
        policy = AccessPolicy.model_validate(loaded(text))
    except ValidationError as error:
        raise ConfigurationError(explained(error, AccessPolicy, "This policy")) from None
    if not policy.accounts and policy.other_groups is Unnamed.DENY and policy.account_count is None:
        raise ConfigurationError(
            "It names no account, so every message would be rejected. If you mean that, write account_count = 0."
        )
    return policy


def doubts(policy: AccessPolicy) -> Iterator[str]:
    """What is lawful and probably not meant."""
    if not policy.accounts and policy.other_groups is Unnamed.DENY:
        yield "It names no account, so nobody may send anything."
    for name, account in policy.accounts.items():
        if not account.groups and not account.roles:
            yield f"Account {name} has no groups, so it says nothing."
        if account.limits != AccountLimits() and not account.groups:
            yield f"Account {name} has limits and no groups, so nothing is counted for it."
        if account.roles and not account.keys:
            yield f"Account {name} has roles and no keys, so nothing can be signed by it."
        if account.groups and not account.topics and account.other_topics is Unnamed.DENY:
            yield f"Account {name} names no topics, so its groups may send nothing."


def left_open(policy: AccessPolicy) -> Iterator[str]:
    """What a policy lets through that somebody may not expect of it."""
    if policy.other_groups is Unnamed.ALLOW:
        yield "Groups that no account names may send to any topic."
    elif not policy.signed:
        yield "Any producer may write retries of consumer groups that no account names: no producer group has keys."
    for name, account in policy.accounts.items():
        if account.groups and (account.other_topics is Unnamed.ALLOW or _STAR in account.topics):
            rest = " but its not_topics" if account.not_topics else ""
            yield f"Groups of account {name} may send to any topic{rest}."
        if _STAR in account.groups:
            yield f"Every group belongs to account {name}."
    named = [name for name, account in policy.accounts.items() if account.groups and not account.keys]
    if named:
        yield (
            f"What is written of groups of {', '.join(named)} is believed unsigned: whoever may write to the half and "
            "the op topic may borrow their names."
        )
