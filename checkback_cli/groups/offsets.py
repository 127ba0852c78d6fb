"""``checkback offsets``: where a consumer group is, and setting it back, while it runs."""

from typing import Annotated

import typer

from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, duration_ms
from conf import load

offsets = typer.Typer(no_args_is_help=True, help="Where a consumer group is: see it, and set it back or forward.")


def _named(group: str) -> str:
    if not group.strip():
        raise typer.BadParameter("a group has a name.")
    return group


ConsumerGroup = Annotated[
    str, typer.Option("--group", "-g", callback=_named, help="The consumer group.", show_default=False)
]
OneTopic = Annotated[str, typer.Option("--topic", "-t", help="The topic.", show_default=False)]
OnlyTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.", show_default=False)]
To = Annotated[
    str,
    typer.Option(
        "--to",
        help="earliest, latest, -100 or +100 messages, -30m (s, m, h, d: that long ago), or a time: 2026-11-22T12:00 "
        "(UTC), 2026-11-22T12:00+01:00.",
        show_default=False,
    ),
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated.")
]


@offsets.command("show")
def show(
    group: ConsumerGroup,
    topic: OnlyTopic = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the group's partitions: the next offset to read, where the topic begins and ends, how far behind, and who.

    The topic ends where read_committed consumers may read to.

    Exit status 0: the group is there; 1: it has stored nothing and has no members.
    """
    from checkback_cli.groups.group_offsets import show_offsets

    show_offsets(load(config, bootstrap_server).kafka, group, topic, as_json=as_json)


@offsets.command("reset")
def reset(
    group: ConsumerGroup,
    topic: OneTopic,
    to: To,
    partitions: Partitions = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Allow moving forward, too: the messages between are skipped and never read."),
    ] = False,
    new_group: Annotated[
        bool, typer.Option("--new-group", help="Also of a group that has stored nothing and has no members.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[str, typer.Option(help="How long to wait for running consumers: 30s, 5min.")] = "30s",
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Have a group go on elsewhere, while it runs. Without --force only backwards.

    Running consumers of Checkback hear of it: they drop what they hold, store the offset, and go on there. A group of
    other clients must be stopped; this says who is in it. An inbox passes over what is read again.

    Exit status 0: all is set, or is there already; 1: not all of it, as where --force is needed; 2: wrong arguments, or
    nobody to ask; 75: Kafka is away.
    """
    from checkback_cli.groups.group_offsets import GroupReset, reset_offsets

    wanted = GroupReset(group, topic, to, partitions, force, new_group)
    seconds = duration_ms("--wait", wait) / 1000
    ask = not yes and not dry_run
    reset_offsets(load(config, bootstrap_server).kafka, wanted, seconds, dry_run=dry_run, ask=ask, as_json=as_json)
