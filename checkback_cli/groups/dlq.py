"""``checkback dlq``: what consumer groups have given up on: see it, and resend it."""

from typing import TYPE_CHECKING, Annotated

import typer

from checkback.exceptions import ProtocolError
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile
from conf import load

if TYPE_CHECKING:
    from checkback.consumer.retries.dead_letters import LetterPlace

_RECEIVERS = ("retry", "origin")


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
def show_all(
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
def show(
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
def resend(
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
