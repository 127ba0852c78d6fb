"""An access policy together with marks of the secrets that it needs."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from access.policy import AccessPolicy, AccountRole
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey
from conf.settings import Settings


class MarkedPolicy(AccessPolicy):
    """A policy as the job fixes it with its batches."""

    marks: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the keys that it names, by id: a batch that is run again must be judged with the same secrets."""


class OwnKey(NamedTuple):
    """The job's."""

    id: str
    """Empty: it has none."""
    signs: tuple[AccountRole, ...] = (AccountRole.JOB,)
    """What it is to sign: at least what the job holds, or moves for consumers."""


def key_of_job(settings: Settings) -> OwnKey:
    """The job's, with these settings, and what it is to sign with it."""
    signs = [AccountRole.JOB]
    if settings.checks.in_job:
        signs.append(AccountRole.CHECKS)
    if settings.http.token.get_secret_value():  # people decide on its page
        signs.append(AccountRole.OPERATOR)
    return OwnKey(settings.access.key, tuple(signs))


def marked(policy: AccessPolicy, keys: Mapping[str, SigningKey], own: OwnKey) -> MarkedPolicy:
    """The policy with the keys that it names.

    Raises:
        ConfigurationError: a key has no secret, or what the job writes for groups with keys would be refused.
    """
    named = sorted({key for account in policy.accounts.values() for key in account.keys})
    without = [key for key in named if key not in keys]
    if without:
        raise ConfigurationError(
            f"it names keys that access.secrets has no secret of: {', '.join(without)}. That setting names a file with "
            'a line id = "secret" for each'
        )
    account = next((name for name, one in policy.accounts.items() if own.id in one.keys), None)
    roles = frozenset() if account is None else policy.accounts[account].roles
    if not roles.issuperset(own.signs) and policy.signed:
        wanted = ", ".join(f'"{role}"' for role in own.signs)
        found = f"; {own.id} is a key of {account or 'no account'}" if own.id else ""
        raise ConfigurationError(
            "groups have keys, so what the job writes of them (held messages, answers, decisions on its page) "
            f"must be signed: let access.key name a key of an account with roles = [{wanted}]{found}"
        )
    return with_marks(policy, keys)


def with_marks(policy: AccessPolicy, keys: Mapping[str, SigningKey]) -> MarkedPolicy:
    """The policy with marks of those of its keys that are trusted: a key without a mark signs nothing."""
    named = sorted({key for account in policy.accounts.values() for key in account.keys})
    marks = {key: keys[key].fingerprint for key in named if key in keys}
    return MarkedPolicy(other_groups=policy.other_groups, accounts=policy.accounts, marks=marks)


def lacking(policy: MarkedPolicy, keys: Mapping[str, SigningKey]) -> list[str]:
    """Ids of those of its keys whose secret is not here, or another one."""
    return [key for key, mark in policy.marks.items() if key not in keys or keys[key].fingerprint != mark]
