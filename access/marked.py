"""An access policy together with marks of the secrets that it needs."""

from collections.abc import Mapping

from pydantic import Field

from access.policy import AccessPolicy
from checkback.exceptions import ConfigurationError
from checkback.wire.signed_records import SigningKey


class MarkedPolicy(AccessPolicy):
    """A policy as the job fixes it with its batches."""

    marks: dict[str, str] = Field(default_factory=dict)
    """Fingerprints of the keys that it names, by id: a batch that is run again must be judged with the same secrets."""


def marked(policy: AccessPolicy, keys: Mapping[str, SigningKey]) -> MarkedPolicy:
    """The policy with the keys that it names.

    Raises:
        ConfigurationError: a key has no secret.
    """
    named = sorted({key for account in policy.accounts.values() for key in account.keys})
    without = [key for key in named if key not in keys]
    if without:
        raise ConfigurationError(f"it names keys that access.secrets has no secret of: {', '.join(without)}")
    marks = {key: keys[key].fingerprint for key in named}
    return MarkedPolicy(other_groups=policy.other_groups, accounts=policy.accounts, marks=marks)


def lacking(policy: MarkedPolicy, keys: Mapping[str, SigningKey]) -> list[str]:
    """Ids of those of its keys whose secret is not here, or another one."""
    return [key for key, mark in policy.marks.items() if key not in keys or keys[key].fingerprint != mark]
