"""``checkback parked``: messages that were given up on, or could not be delivered."""

from typing import Annotated

import typer

from checkback.operations.parked import ParkedMessages
from checkback.operations.times import said_time
from checkback_cli.terminal.listing import note_missing, show_rows
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile
from conf import load

parked = typer.Typer(
    no_args_is_help=True,
    help="Messages that were given up on, or could not be delivered: commit, rollback, resume or redeliver ends them.",
)

Group = Annotated[str | None, typer.Option(help="Only those of this producer group.")]
Ended = Annotated[bool, typer.Option("--ended", help="Also those that wait no longer, with what became of them.")]


@parked.command("list")
def show(
    group: Group = None,
    ended: Ended = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the messages that wait for an operator: to be decided, or to be delivered again."""
    kafka = load(config, bootstrap_server).kafka
    names = ("half", "transaction", "group", "topic", "parked", "why", "last answer", *(["became"] if ended else []))
    with ParkedMessages(kafka.bootstrap_servers, kafka.topics, kafka.python_client) as messages:
        found = messages.read(ended=ended)
        rows = [
            (
                *(str(message.half), message.transaction_id, message.group, message.topic),
                *(said_time(message.time_ms), message.reason, message.answer),
                *([message.became] if ended else []),
            )
            for message in found
            if group in {None, message.group}
        ]
    note_missing(group, (message.group for message in found))
    show_rows(names, rows, as_json=as_json, by="why")
