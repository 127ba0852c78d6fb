"""``checkback access print``, ``grant`` and ``check``."""

from typing import Annotated

import typer

from access import Right, Role, Whom, compare, entries_of, kafka_acls_lines, rights_of
from checkback.exceptions import ConfigurationError
from checkback.wire.printable import printable
from checkback_cli.terminal.options import WRONG, BootstrapServer, ConfigFile
from conf import Settings, load

access = typer.Typer(no_args_is_help=True, help="What each role may do on Kafka's own lists (ACLs): docs/security.md.")

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


def _wanted(settings: Settings, role: Role, group: str, topics: list[str] | None, *, direct: bool) -> tuple[Right, ...]:
    return rights_of(role, Whom(settings.kafka.topics, group, tuple(topics or ()), direct))


def _lawful(principal: str) -> str:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ConfigurationError(f"--principal {principal}: Kafka's principals have a kind, as User:{principal} has.")
    return principal
