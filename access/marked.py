"""An access policy together with marks of the secrets that it needs."""

from collections.abc import Mapping

from pydantic import Field

from access.policy import AccessPolicy, AccountRole
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey


class MarkedPolicy(AccessPolicy):
    """A policy as the job fixes it with its batches."""

    marks: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the keys that it names, by id: a batch that is run again must be judged with the same secrets."""


def marked(policy: AccessPolicy, keys: Mapping[str, SigningKey], own: str) -> MarkedPolicy:
    """The policy with the keys that it names; ``own`` is the id of the job's.

    Raises:
        ConfigurationError: a key has no secret, or what the job holds for groups with keys would be refused.
    """
    named = sorted({key for account in policy.accounts.values() for key in account.keys})
    without = [key for key in named if key not in keys]
    if without:
        raise ConfigurationError(f"it names keys that access.secrets has no secret of: {', '.join(without)}")
    of_job = {key for one in policy.accounts.values() if AccountRole.JOB in one.roles for key in one.keys}
    if own not in of_job and any(one.keys and one.groups for one in policy.accounts.values()):
        raise ConfigurationError(
            "groups have keys, so the job must sign the messages that it holds, or moves for consumers: let access.key "
            'name a key of an account with roles = ["job"]'
        )
    marks = {key: keys[key].fingerprint for key in named}
    return MarkedPolicy(other_groups=policy.other_groups, accounts=policy.accounts, marks=marks)


def lacking(policy: MarkedPolicy, keys: Mapping[str, SigningKey]) -> list[str]:
    """Ids of those of its keys whose secret is not here, or another one."""
    return [key for key, mark in policy.marks.items() if key not in keys or keys[key].fingerprint != mark]
