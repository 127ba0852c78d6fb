"""``checkback parked``: what an operator can do about messages that were given up on, or could not be delivered."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from checkback.cli.options import ConfigFile
from checkback.exceptions import OperatorError
from checkback.parked import ParkedMessage, ParkedMessages
from checkback.protocol import Action, Topics
from conf import load

parked = typer.Typer(
    no_args_is_help=True, help="Messages that were given up on, or could not be delivered: see them, and decide."
)

Ids = Annotated[list[str] | None, typer.Argument(help="Transaction ids, as 'parked list' shows them.", metavar="ID")]
All = Annotated[bool, typer.Option("--all", help="All that are in the list.")]
Group = Annotated[str | None, typer.Option(help="Only those of this producer group.")]
Ended = Annotated[bool, typer.Option("--ended", help="Also those that wait no longer, with what became of them.")]
Remark = Annotated[str, typer.Option(help="Why, for those who read the op topic later.")]


@parked.command("list")
def show(group: Group = None, ended: Ended = False, config: ConfigFile = None) -> None:
    """List the messages that wait for an operator: to be decided, or to be delivered again."""
    table = Table()
    for name in ("transaction", "group", "topic", "half", "parked", "why", *(["became"] if ended else [])):
        table.add_column(name, overflow="fold")
    with _open(config) as messages:
        for message in _chosen(messages.read(ended=ended), group):
            parked_at = datetime.fromtimestamp(message.time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            said = (message.transaction_id, message.group, message.topic, str(message.half), parked_at, message.reason)
            table.add_row(*said, *([message.became] if ended else []))
    Console().print(table)


@parked.command()
def resume(
    ids: Ids = None, every: All = False, group: Group = None, remark: Remark = "", config: ConfigFile = None
) -> None:
    """Check them again, with fresh attempts."""
    _end(Action.RESUME, ids, every, group, remark, config)


@parked.command()
def commit(
    ids: Ids = None, every: All = False, group: Group = None, remark: Remark = "", config: ConfigFile = None
) -> None:
    """Deliver them."""
    _end(Action.COMMIT, ids, every, group, remark, config)


@parked.command()
def rollback(
    ids: Ids = None, every: All = False, group: Group = None, remark: Remark = "", config: ConfigFile = None
) -> None:
    """Never deliver them."""
    _end(Action.ROLLBACK, ids, every, group, remark, config)


@parked.command()
def redeliver(
    ids: Ids = None, every: All = False, group: Group = None, remark: Remark = "", config: ConfigFile = None
) -> None:
    """Deliver those that were committed and that their topics did not take; again does no harm."""
    _end(Action.REDELIVER, ids, every, group, remark, config)


def _end(
    action: Action, ids: list[str] | None, every: bool, group: str | None, remark: str, config: ConfigFile
) -> None:
    if bool(ids) == every:
        raise OperatorError("Name transactions, or give --all; not both.")
    with _open(config) as messages:
        found = {message.transaction_id: message for message in _chosen(messages.read(), group)}
        unknown = [name for name in ids or () if name not in found]
        if unknown:
            raise OperatorError(f"Not in the list of parked messages: {', '.join(unknown)}. Nothing was done.")
        chosen = [found[name] for name in ids] if ids else [one for one in found.values() if _applies(action, one)]
        _refuse(action, chosen)
        messages.end(chosen, action, remark)
    Console().print(f"{action}: {len(chosen)} written; the job judges them in the order of the op topic.")


def _applies(action: Action, message: ParkedMessage) -> bool:
    return message.undecided != (action is Action.REDELIVER) and message.kept


def _refuse(action: Action, chosen: list[ParkedMessage]) -> None:
    """Say so before anything is written, when the action is of no use for one of these."""
    wrong = [message for message in chosen if not _applies(action, message)]
    if not wrong:
        return
    names = ", ".join(message.transaction_id for message in wrong)
    if wrong[0].undecided:
        why = "not decided yet: 'checkback parked commit', 'rollback' or 'resume' does that"
    elif action is not Action.REDELIVER:
        why = "committed already, and could not be delivered: 'checkback parked redeliver' delivers it again"
    else:
        why = "in cb.parked only, since it did not fit into cb.half with the reason: send it to its topic by hand"
    raise OperatorError(f"{names}: {why}. Nothing was done.")


def _chosen(messages: list[ParkedMessage], group: str | None) -> list[ParkedMessage]:
    return [message for message in messages if group in {None, message.group}]


def _open(config: ConfigFile) -> ParkedMessages:
    kafka = load(config).kafka
    return ParkedMessages(kafka.bootstrap_servers, Topics(kafka.topic_prefix), kafka.client_options)
