"""The settings and the access policy, beyond what keeps them from being loaded."""

import os
from collections.abc import Iterator
from pathlib import Path

from access.marked import key_of_job, marked
from access.policy import doubts, left_open, policy_of
from checkback.exceptions import ConfigurationError
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from conf import SettingOrigin, Settings, origins
from conf.secrets_file import own_key, read_keys

_ABOUT = "policy"


def about_settings(settings: Settings, file: Path | None, bootstrap_servers: str | None) -> Iterator[Finding]:
    """Where they came from, and what in them is likely not meant."""
    changed = [one.key for one in origins(file, bootstrap_servers) if one.origin is not SettingOrigin.DEFAULT]
    named = file or os.environ.get("CHECKBACK_CONFIG")
    differing = f"{len(changed)} not the default" + _shown(changed) if changed else "all defaults"
    yield ok("settings", f"{named or 'no settings file'}; {differing}")
    local = [server for server in settings.kafka.bootstrap_servers.split(",") if _loopback(server)]
    if local and len(local) < len(settings.kafka.bootstrap_servers.split(",")):
        said = f"kafka.bootstrap_servers mixes this machine ({', '.join(local)}) with others"
        yield warning("settings", said, "name the brokers of one cluster")
    if settings.http.port and not _loopback_host(settings.http.host):
        said = f"http.host is {settings.http.host}: others can see the status page, with ids, groups and topics"
        yield warning("settings", said, "put an authenticating proxy in front of it, or set http.host = '127.0.0.1'")
    if settings.http.token.get_secret_value() and "CHECKBACK_HTTP__TOKEN" not in os.environ:
        yield warning(
            "settings", "http.token is in the settings file", "set CHECKBACK_HTTP__TOKEN instead, and remove it there"
        )
    secured = settings.kafka.security
    if secured.authenticated and not secured.encrypted:
        said = "kafka.security.protocol is SASL_PLAINTEXT: what is sent can be read in transit"
        yield warning("settings", said, "use SASL_SSL, unless the network is yours alone")
    yield from _about_checks(settings)


def _about_checks(settings: Settings) -> Iterator[Finding]:
    if settings.transactions.check_max == 0:
        yield warning(
            "settings",
            "transactions.check_max is 0: no producer is ever asked, and a transaction without an op is given up on",
            "set it to how often producers are to be asked (15)",
        )
    if not settings.checks.in_job:
        yield ok("settings", "checks.in_job is false: checks are answered by 'checkback checks' alone")


def _shown(keys: list[str]) -> str:
    return f": {', '.join(keys[:8])}{', ...' if len(keys) > 8 else ''}"


def _loopback(server: str) -> bool:
    return _loopback_host(server.rpartition(":")[0].strip().strip("[]"))


def _loopback_host(host: str) -> bool:
    return host in {"localhost", "::1"} or host.startswith("127.")


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
