"""``checkback parked``, ``rejected`` and ``audit``: what was given up on, what was not taken, who decided."""

import time
from typing import Annotated

import typer

from checkback.operations.audit import AuditLine, audit_lines, not_taken, rejected_records
from checkback.operations.parked import ParkedMessages
from checkback.operations.times import said_time
from checkback.wire.audit import AuditKind
from checkback_cli.terminal.listing import note_missing, show_rows
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, Group, Last, Since
from checkback_cli.terminal.reading import reading
from conf import load

parked = typer.Typer(
    no_args_is_help=True,
    help="Messages that were given up on, or could not be delivered: commit, rollback, resume or redeliver ends them.",
)

Ended = Annotated[bool, typer.Option("--ended", help="Also those that wait no longer, with what became of them.")]
_OF_REJECTED = ("rejected", "record", "reason", "transaction", "group", "topic", "action")
_OF_AUDIT = ("time", "kind", "who", "key", "group", "topic", "number", "not_taken", "what", "why", "halves")
_MOST_HALVES = 5


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


def rejected(
    group: Group = None,
    since: Since = None,
    limit: Last = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List the half messages and ops that the job has not taken, with the reason of each.

    A rejected half message is lost: nobody delivers it, and its producer does not hear of it. Their content is in
    cb.rejected, and 'record' says where the original lies.
    """
    kafka = load(config, bootstrap_server).kafka
    since_ms = 0 if since is None else max(0, int(time.time() * 1000) - since)
    topics = kafka.topics
    with reading(kafka) as consumer:
        found = list(rejected_records(consumer, topics, since_ms))
        rows = [
            (said_time(one.time_ms), one.came_from, one.reason, one.transaction_id, one.group, one.topic, one.action)
            for one in found
            if group in {None, one.group}
        ]
    note_missing(group, (one.group for one in found))
    show_rows(_OF_REJECTED, rows if limit is None else rows[-limit:], as_json=as_json, by="reason")


def audit(
    kind: Annotated[AuditKind | None, typer.Option(help="Only those of this kind.", show_default=False)] = None,
    group: Group = None,
    since: Since = None,
    limit: Last = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List who has decided what by hand, which access policy held from when on, and what it has refused.

    'key' is the one that a decision is signed with; 'who' is what people and programs call themselves. What was
    refused is told once for each batch, group, topic and reason, and again after a crash in between. 'not_taken' is of
    how many decisions an op lies in cb.rejected: 'checkback rejected' says why.
    """
    kafka = load(config, bootstrap_server).kafka
    since_ms = 0 if since is None else max(0, int(time.time() * 1000) - since)
    with reading(kafka) as consumer:
        lines = [
            line
            for line in audit_lines(consumer, kafka.topics, since_ms)
            if kind in {None, line.record.kind} and (group is None or group in line.record.group.split(","))
        ]
        lines = lines if limit is None else lines[-limit:]
        decided = [line.time_ms for line in lines if line.record.kind is AuditKind.DECISION]
        rejected = rejected_records(consumer, kafka.topics, min(decided)) if decided else ()
        refused = not_taken(lines, rejected)
    rows = [_audit_row(line, number, as_json=as_json) for line, number in zip(lines, refused, strict=True)]
    show_rows(_OF_AUDIT, rows, as_json=as_json)


def _audit_row(line: AuditLine, refused: int, *, as_json: bool) -> tuple[object, ...]:
    said = line.record
    shown = said.halves if as_json else said.halves[:_MOST_HALVES]
    more = len(said.halves) - len(shown)
    halves = " ".join(shown) + (f" and {more} more" if more else "")
    return (
        *(said_time(line.time_ms), said.kind.value, said.who, said.key, said.group, said.topic, said.number),
        refused,
        *(said.what, said.why, halves),
    )
