"""``checkback parked``: what an operator can do about messages that were given up on, or could not be delivered."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from checkback.exceptions import OperatorError, ProtocolError
from checkback.operations.parked import ParkedMessage, ParkedMessages
from checkback.operations.times import said_time
from checkback.wire.protocol import Action, HalfPosition, Topics
from checkback_cli.terminal.listing import show_rows
from checkback_cli.terminal.naming import ambiguous, called
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile
from conf import load

parked = typer.Typer(
    no_args_is_help=True, help="Messages that were given up on, or could not be delivered: see them, and decide."
)

Ids = Annotated[
    list[str] | None,
    typer.Argument(help="Transaction ids, or unambiguous beginnings (4 characters or more).", metavar="ID"),
]
Halves = Annotated[
    list[str] | None,
    typer.Option("--half", help="Places of half messages, as 'parked list' shows them.", metavar="PARTITION:OFFSET"),
]
All = Annotated[bool, typer.Option("--all", help="All that are in the list.")]
Group = Annotated[str | None, typer.Option(help="Only those of this producer group.")]
Ended = Annotated[bool, typer.Option("--ended", help="Also those that wait no longer, with what became of them.")]
Remark = Annotated[str, typer.Option(help="Why, for those who read the op topic later.")]


@parked.command("list")
def show(
    group: Group = None,
    ended: Ended = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the messages that wait for an operator: to be decided, or to be delivered again."""
    names = ("half", "transaction", "group", "topic", "parked", "why", *(["became"] if ended else []))
    with _open(config, bootstrap_server) as messages:
        rows = [
            (
                *(str(message.half), message.transaction_id, message.group, message.topic),
                *(said_time(message.time_ms), message.reason),
                *([message.became] if ended else []),
            )
            for message in _chosen(messages.read(ended=ended), group)
        ]
    show_rows(names, rows, as_json=as_json)


@parked.command()
def resume(
    ids: Ids = None,
    halves: Halves = None,
    every: All = False,
    group: Group = None,
    remark: Remark = "",
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Check them again, with fresh attempts."""
    _end(Action.RESUME, _Wanted(ids, halves, every, group), remark, _open(config, bootstrap_server))


@parked.command()
def commit(
    ids: Ids = None,
    halves: Halves = None,
    every: All = False,
    group: Group = None,
    remark: Remark = "",
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Deliver them."""
    _end(Action.COMMIT, _Wanted(ids, halves, every, group), remark, _open(config, bootstrap_server))


@parked.command()
def rollback(
    ids: Ids = None,
    halves: Halves = None,
    every: All = False,
    group: Group = None,
    remark: Remark = "",
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Never deliver them."""
    _end(Action.ROLLBACK, _Wanted(ids, halves, every, group), remark, _open(config, bootstrap_server))


@parked.command()
def redeliver(
    ids: Ids = None,
    halves: Halves = None,
    every: All = False,
    group: Group = None,
    remark: Remark = "",
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Deliver those that were committed and that their topics did not take; again does no harm."""
    _end(Action.REDELIVER, _Wanted(ids, halves, every, group), remark, _open(config, bootstrap_server))


class _Wanted(NamedTuple):
    """Which messages an operator has named."""

    ids: list[str] | None
    halves: list[str] | None
    every: bool
    group: str | None


def _end(action: Action, wanted: _Wanted, remark: str, opened: ParkedMessages) -> None:
    if bool(wanted.ids or wanted.halves) == wanted.every:
        raise OperatorError("Name transactions or places (--half), or give --all; not both.")
    with opened as messages:
        chosen = chosen_of(_chosen(messages.read(), wanted.group), action, wanted.ids or (), wanted.halves or ())
        messages.end(chosen, action, remark)
    Console().print(f"{action}: {len(chosen)} written; the job judges them in the order of the op topic.")


def chosen_of(
    found: Sequence[ParkedMessage], action: Action, ids: Sequence[str], halves: Sequence[str]
) -> list[ParkedMessage]:
    """The messages that were named, each once; all that the action is for when none was.

    Raises:
        OperatorError: one is not there, an id is that of several, or the action is of no use for one.
    """
    if not (ids or halves):
        return [message for message in found if _applies(action, message)]
    places = [(half, _position(half)) for half in halves]
    named = [(half, [message for message in found if message.half == place]) for half, place in places]
    of = [(name, _of_id(found, action, name)) for name in ids]
    unknown = [name for name, messages in of + named if not messages]
    if unknown:
        raise OperatorError(f"Not in the list of parked messages: {', '.join(unknown)}. Nothing was done.")
    several = [_said(name, messages) for name, messages in of if len(messages) > 1]
    if several:
        raise OperatorError(f"{' '.join(several)} Name the place, as --half PARTITION:OFFSET. Nothing was done.")
    chosen = list(dict.fromkeys(message for _, messages in of + named for message in messages))
    _refuse(action, chosen)
    return chosen


def _of_id(found: Sequence[ParkedMessage], action: Action, name: str) -> list[ParkedMessage]:
    """Those with this id that the action is for; when there are none, the others, to be told of."""
    same = called(found, name)
    if ambiguous(same):
        return same
    return [message for message in same if _applies(action, message)] or same[:1]


def _said(name: str, messages: Sequence[ParkedMessage]) -> str:
    begun = ambiguous(messages)
    places = ", ".join(
        f"{f'{one.transaction_id} at ' if begun else ''}{one.half} (group {one.group}, topic {one.topic})"
        for one in messages
    )
    return f"{name} {'begins the ids' if begun else 'is the id'} of {len(messages)} messages: {places}."


def _position(half: str) -> HalfPosition:
    try:
        return HalfPosition.parse(half)
    except (ValueError, ProtocolError) as error:
        raise OperatorError(
            f"{half} is not the place of a half message: write PARTITION:OFFSET, such as 3:4711."
        ) from error


def _applies(action: Action, message: ParkedMessage) -> bool:
    return message.undecided != (action is Action.REDELIVER) and message.kept


def _refuse(action: Action, chosen: list[ParkedMessage]) -> None:
    """Say so before anything is written, when the action is of no use for one of these."""
    wrong = [message for message in chosen if not _applies(action, message)]
    if not wrong:
        return
    names = ", ".join(f"{message.transaction_id} at {message.half}" for message in wrong)
    if wrong[0].undecided:
        why = "not decided yet: 'checkback parked commit', 'rollback' or 'resume' does that"
    elif action is not Action.REDELIVER:
        why = "committed already, and could not be delivered: 'checkback parked redeliver' delivers it again"
    else:
        why = "in cb.parked only, since it did not fit into cb.half with the reason: send it to its topic by hand"
    raise OperatorError(f"{names}: {why}. Nothing was done.")


def _chosen(messages: list[ParkedMessage], group: str | None) -> list[ParkedMessage]:
    return [message for message in messages if group in {None, message.group}]


def _open(config: ConfigFile, bootstrap_server: BootstrapServer) -> ParkedMessages:
    kafka = load(config, bootstrap_server).kafka
    return ParkedMessages(kafka.bootstrap_servers, Topics(kafka.topic_prefix), kafka.python_client)
