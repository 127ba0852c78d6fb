"""``checkback audit``."""

import time
from typing import Annotated

import typer

from checkback.operations.audit import AuditLine, audit_lines, not_taken
from checkback.operations.rejected import rejected_records
from checkback.operations.times import said_time
from checkback.wire.audit import AuditKind
from checkback_cli.terminal.listing import show_rows
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, Last, OfGroup, Since
from checkback_cli.terminal.reading import reading
from conf import load

_NAMES = ("time", "kind", "who", "key", "group", "topic", "number", "not_taken", "what", "why", "halves")
_MOST_HALVES = 5


def audit(
    kind: Annotated[AuditKind | None, typer.Option(help="Only those of this kind.", show_default=False)] = None,
    group: OfGroup = None,
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
    rows = [_row(line, number, as_json=as_json) for line, number in zip(lines, refused, strict=True)]
    show_rows(_NAMES, rows, as_json=as_json)


def _row(line: AuditLine, refused: int, *, as_json: bool) -> tuple[object, ...]:
    said = line.record
    shown = said.halves if as_json else said.halves[:_MOST_HALVES]
    more = len(said.halves) - len(shown)
    halves = " ".join(shown) + (f" and {more} more" if more else "")
    return (
        *(said_time(line.time_ms), said.kind.value, said.who, said.key, said.group, said.topic, said.number),
        refused,
        *(said.what, said.why, halves),
    )
