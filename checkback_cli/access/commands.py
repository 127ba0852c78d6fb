"""``checkback access print``, ``grant``, ``check``, ``policy``, ``key``, ``token`` and ``signers``."""

from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from access import Right, Role, Whom, compare, entries_of, kafka_acls_lines, rights_of
from checkback.exceptions import ConfigurationError
from checkback.wire.printable import printable
from checkback.wire.signed_records import LEAST_SECRET_BYTES, SigningKey
from checkback_cli.terminal.listing import show_rows
from checkback_cli.terminal.options import WRONG, BootstrapServer, ConfigFile, age
from conf import Settings, load

if TYPE_CHECKING:
    from access.policy import AccessPolicy, Account

access = typer.Typer(no_args_is_help=True, help="Who may do what: Kafka's own lists (ACLs), and the policy.")

_Role = Annotated[Role, typer.Argument(help="Who is to be let in.")]
_Principal = Annotated[str, typer.Option("--principal", "-p", help="As Kafka knows it: User:shop.")]
_Group = Annotated[
    str, typer.Option("--group", "-g", help="The producer's or the consumer's group.", show_default=False)
]
_Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", help="A topic that it sends to, delivers to or reads; shop.* stands for all that begin so."
    ),
]
_Direct = Annotated[bool, typer.Option("--direct", help='A producer with delivery="direct".')]


@access.command("print")
def show(
    role: _Role,
    principal: _Principal,
    group: _Group = "",
    topic: _Topics = None,
    direct: _Direct = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Print kafka-acls.sh lines that give a role exactly what it needs. Kafka is not asked."""
    settings = load(config, bootstrap_server)
    rights = _wanted(settings, role, group, topic, direct=direct)
    for line in kafka_acls_lines(rights, _lawful(principal), settings.kafka.bootstrap_servers):
        typer.echo(line)


@access.command("grant")
def grant(
    role: _Role,
    principal: _Principal,
    group: _Group = "",
    topic: _Topics = None,
    direct: _Direct = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Give a role what it needs. Nothing is taken away: 'checkback access check' says what is too much."""
    from checkback_cli.access.lists import AccessLists

    settings = load(config, bootstrap_server)
    wanted = entries_of(_wanted(settings, role, group, topic, direct=direct), _lawful(principal))
    with AccessLists(settings) as lists:
        done = lists.add(wanted)
    for one in done:
        typer.echo(f"{'granted' if one.added else 'is there'}  {printable(str(one.entry))}")


@access.command("check")
def check(
    role: _Role,
    principal: _Principal,
    group: _Group = "",
    topic: _Topics = None,
    direct: _Direct = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Say what a principal lacks for a role, and what it may do beside it.

    Exit status 1 when it lacks something; what is too much is only said. super.users have all rights, and no entries.
    """
    from checkback_cli.access.lists import AccessLists

    settings = load(config, bootstrap_server)
    rights = _wanted(settings, role, group, topic, direct=direct)
    with AccessLists(settings) as lists:
        found = compare(rights, _lawful(principal), lists.entries())
    for right in found.lacking:
        typer.echo(f"lacks     {printable(str(right))}: {right.why}")
    for right, entry in found.denied:
        typer.echo(f"denied    {printable(str(right))}: {printable(str(entry))}")
    for entry in found.excess:
        typer.echo(f"too much  {printable(str(entry))}")
    if found.lacking or found.denied:
        raise typer.Exit(WRONG)
    if not found.excess:
        typer.echo(f"{printable(principal)} has exactly what a {role} needs.")


@access.command("policy")
def policy(
    file: Annotated[Path, typer.Argument(help="As access.policy of the settings names it.", show_default=False)],
    group: _Group = "",
    topic: _Topics = None,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Say what a policy file comes to: for a group and topics, whether it may send there. Kafka is not asked.

    Where access.secrets is set, its keys are looked at, too, as the job does. Exit status 1 when the group may not send
    to one of them, or the job would refuse the file.
    """
    from access.policy import doubts, judge, left_open, policy_of

    try:
        found = policy_of(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"Cannot read {file}: {error}.") from None
    for doubt in doubts(found):
        typer.echo(doubt, err=True)
    settings = load(config, bootstrap_server)
    wrong = _wrong_keys(found, settings)
    if not group:
        show_rows(
            ("account", "groups", "topics", "not", "others", "keys", "roles", "limits"),
            [_account_row(*one) for one in found.accounts.items()],
        )
        typer.echo(f"groups that no account names: {found.other_groups}")
        for gap in left_open(found):
            typer.echo(gap)
    if wrong:
        typer.echo(wrong, err=True)
    if not group:
        if wrong and settings.access.secrets:
            raise typer.Exit(WRONG)
        return
    own = settings.kafka.topics
    verdicts = [(one, judge(found, group, one, own)) for one in topic or ()]
    for one, verdict in verdicts:
        typer.echo(printable(verdict.reason or f"group {group} may send to {one}"))
    if not all(verdict.allowed for _, verdict in verdicts):
        raise typer.Exit(WRONG)


@access.command("key")
def key(
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="What it is to be called, as shop-2026.", show_default=False)
    ],
) -> None:
    """Make a key: print a line for the file of access.secrets, with a secret of 256 random bits. It is kept nowhere."""
    made = SigningKey(key_id, secret := token_urlsafe(LEAST_SECRET_BYTES))
    typer.echo(f'"{made.id}" = "{secret}"')


@access.command("token")
def token(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="A key's, as shop-2026.", show_default=False)],
    config: ConfigFile = None,
) -> None:
    """Print the bearer token of a key in access.secrets: it shows an account to a gateway, and signs nothing."""
    from conf.secrets_file import read_keys

    name = load(config, None).access.secrets
    if not name:
        raise ConfigurationError("access.secrets names no file: it is a setting, as access.policy is.")
    found = read_keys(name).get(key_id)
    if found is None:
        raise ConfigurationError(f"access.secrets ({name}) has no secret of {key_id}.")
    typer.echo(found.bearer_token)


@access.command("signers")
def signers(
    since: Annotated[int, typer.Option(parser=age, metavar="AGE", help="Of what was written in this time.")] = "10m",  # type: ignore[assignment]  # typer parses the default, too
    seconds: Annotated[float, typer.Option(min=1, help="Longest time to read.")] = 60.0,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Say which keys each producer group's half messages and ops are signed with, and how many are not signed.

    Look here before a group gets keys in the policy: what is not signed then is rejected. Whether the signatures fit
    is not looked at.
    """
    import time

    from checkback.operations.producers import signers_seen
    from checkback_cli.terminal.reading import reading

    kafka = load(config, bootstrap_server).kafka
    with reading(kafka) as consumer:
        found = signers_seen(consumer, kafka.topics, int(time.time() * 1000) - since, seconds)
    rows = [
        (one.group, one.key_id or "(not signed)", f"{found.halves[one]:,}", f"{found.ops[one]:,}")
        for one in sorted(found.halves | found.ops, key=lambda one: (one.group, one.key_id or ""))
    ]
    show_rows(("group", "key", "half messages", "ops"), rows)
    if not found.whole:
        typer.echo(f"There is more that was not read in {seconds:g} s: --seconds.", err=True)


def _wrong_keys(policy: "AccessPolicy", settings: Settings) -> str:
    """Why the job would refuse the policy for its keys, or that they are not looked at; empty: nothing is wrong."""
    from access.marked import key_of_job, marked
    from conf.secrets_file import read_keys

    if not any(account.keys for account in policy.accounts.values()):
        return ""
    if not settings.access.secrets:
        return "Its keys are not looked at: the setting access.secrets names no file."
    try:
        marked(policy, read_keys(settings.access.secrets), key_of_job(settings))
    except ConfigurationError as error:
        return f"The job refuses it: {error}."
    return ""


def _account_row(name: str, account: "Account") -> tuple[str, ...]:
    named = (account.groups, account.topics, account.not_topics)
    signing = (" ".join(account.keys), " ".join(sorted(account.roles)))
    limits = " ".join(f"{limit}={number}" for limit, number in account.limits if number is not None)
    return name, *(" ".join(names) for names in named), account.other_topics, *signing, limits


def _wanted(settings: Settings, role: Role, group: str, topics: list[str] | None, *, direct: bool) -> tuple[Right, ...]:
    return rights_of(role, Whom(settings.kafka.topics, group, tuple(topics or ()), direct))


def _lawful(principal: str) -> str:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ConfigurationError(f"--principal {principal}: Kafka's principals have a kind, as User:{principal} has.")
    return principal
