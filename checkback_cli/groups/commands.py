"""``checkback offsets`` and ``dlq``: where consumer groups are, and what they have given up on; setting back."""

from typing import TYPE_CHECKING, Annotated

import typer

from checkback.exceptions import ProtocolError
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, duration_ms
from conf import load

if TYPE_CHECKING:
    from checkback.consumer.retries.dead_letters import LetterPlace

offsets = typer.Typer(no_args_is_help=True, help="Where a consumer group is: see it, and set it back or forward.")
_RECEIVERS = ("retry", "origin")


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
def show_offsets(
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
def reset_offsets(
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


def _place(text: str) -> "LetterPlace":
    from checkback.consumer.retries.dead_letters import LetterPlace

    try:
        return LetterPlace.parse(text)
    except ProtocolError:
        raise typer.BadParameter(
            f"{text!r} is not the place of a dead letter: write PARTITION:OFFSET, as 'dlq list' does, 0:17."
        ) from None


def _receiver(text: str) -> str:
    if text not in _RECEIVERS:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_RECEIVERS)}.")
    return text


dlq = typer.Typer(no_args_is_help=True, help="Dead letters of consumer groups: see them, and resend them.")

AnyGroup = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", help="The consumer group; without one, all that have dead letters.", show_default=False
    ),
]
OneGroup = Annotated[str, typer.Option("--group", "-g", help="The consumer group.", show_default=False)]
Origin = Annotated[
    str | None, typer.Option("--topic", "-t", help="Only those that came from this topic.", show_default=False)
]
AlsoResent = Annotated[bool, typer.Option("--resent", help="Also those that were resent: when, to where, by whom.")]
OnePlace = Annotated[str, typer.Argument(metavar="PARTITION:OFFSET", help="Its place, as 'dlq list' shows it.")]
Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="PARTITION:OFFSET", help="Their places, as 'dlq list' shows them."),
]


@dlq.command("list")
def show_letters(
    group: AnyGroup = None,
    topic: Origin = None,
    resent: AlsoResent = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="List at most this many, the newest.")] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List a group's dead letters, the newest first; without --group, the groups that have some, and how many.

    Those that were resent are left out. Of more than 10,000 records they are not counted: it says how many there are at
    most.
    """
    from checkback_cli.groups.dead_letters import Listing, list_groups, list_letters

    kafka = load(config, bootstrap_server).kafka
    if group is None:
        if topic or resent:
            raise typer.BadParameter("--topic and --resent need --group.")
        list_groups(kafka, as_json=as_json)
    else:
        list_letters(kafka, Listing(group, topic, resent, limit), as_json=as_json)


@dlq.command("show")
def show_letter(
    place: OnePlace,
    group: OneGroup,
    most_bytes: Annotated[
        int, typer.Option("--bytes", min=0, help="Show so much of the key, the value and each header; --json has all.")
    ] = 4_096,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Show all of one dead letter: where it comes from, why it died, whether it was resent, headers, key and value.

    What is not UTF-8 is shown in hex, control characters as escapes. Exit status 0: found; 1: not.
    """
    from checkback_cli.groups.dead_letters import show_letter

    show_letter(load(config, bootstrap_server).kafka, group, _place(place), most_bytes, as_json=as_json)


@dlq.command("resend")
def resend_letters(
    group: OneGroup,
    places: Places = None,
    every: Annotated[bool, typer.Option("--all", help="All that were not resent, as far as --topic says.")] = False,
    topic: Origin = None,
    to: Annotated[
        str,
        typer.Option(
            parser=_receiver,
            metavar="retry|origin",
            help="retry: to this group alone. origin: to the topic they came from, where all groups get them.",
        ),
    ] = "retry",
    again: Annotated[bool, typer.Option("--again", help="Also those named that were resent before.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    who: Annotated[
        str | None, typer.Option(help="Who does this; by default the user's name.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Give dead letters back to their group, as they were the first time and as if they had never been tried.

    The job delivers them, at once. Each is marked as resent in the same Kafka transaction, so that it is resent once:
    Running it again is harmless, and two people running it at once resend nothing twice.

    Exit status 0: done, or nothing was to be done; 1: not all; 2: wrong arguments, or nobody to ask; 75: try again.
    """
    from checkback.consumer.retries.dead_letters import LetterFilter, To
    from checkback_cli.groups.dead_letters import Manner, resend_letters

    if bool(places) == every:
        raise typer.BadParameter("name letters by their place, or give --all; not both.")
    if again and every:
        raise typer.BadParameter("--again is for letters that are named.")
    wanted = LetterFilter(frozenset(_place(place) for place in places or ()), topic, again)
    resend_letters(load(config, bootstrap_server).kafka, group, wanted, Manner(To(to), not yes, who, as_json))
