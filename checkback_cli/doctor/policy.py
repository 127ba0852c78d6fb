"""The access policy: whether the job can use it, and what it leaves open."""

from collections.abc import Iterator
from pathlib import Path

from access.marked import key_of_job, marked
from access.policy import doubts, left_open, policy_of
from checkback.exceptions import ConfigurationError
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from conf import Settings
from conf.secrets_file import own_key, read_keys

_ABOUT = "policy"


def about_policy(settings: Settings) -> Iterator[Finding]:
    """What is wrong with the file of ``access.policy``, what in it is hardly meant, and what it lets through."""
    name = settings.access.policy
    if not name:
        yield ok(_ABOUT, "none (access.policy): who may write to the half topic may send to every topic of the job's")
        return
    try:
        own_key(settings.access)
        policy = policy_of(Path(name).read_text(encoding="utf-8"))
        marked(policy, read_keys(settings.access.secrets), key_of_job(settings))
    except (OSError, UnicodeDecodeError, ConfigurationError) as error:
        said = " ".join(str(error).split())
        todo = "correct it: the job does not start with it, and one that runs goes by the policy before it"
        yield wrong(_ABOUT, said if name in said else f"{name}: {said}", todo)
        return
    for doubt in doubts(policy):
        yield warning(_ABOUT, f"{name}: {doubt}", "see whether that is meant; docs/access-policy.md")
    for gap in left_open(policy):
        yield warning(
            _ABOUT, f"{name}: {gap}", "leave it where that is meant; docs/access-policy.md says how to close it"
        )
    signed = sum(bool(account.keys and account.groups) for account in policy.accounts.values())
    yield ok(_ABOUT, f"{name}: {len(policy.accounts)} accounts, {signed} of them with groups that have to sign")
