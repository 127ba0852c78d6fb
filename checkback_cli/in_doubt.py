"""``checkback open``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from checkback.times import said_duration, said_time
from checkback_cli.options import AsJson, BootstrapServer, ConfigFile, Group, OlderThan, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkback.in_doubt import InDoubt

_NAMES = ("transaction", "group", "topic", "half", "age", "attempts", "last answer", "next check")


def in_doubt(
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="So many at most, the oldest.")] = 1_000,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List transactions in doubt, the oldest first: those that were checked at least once and are undecided.

    Reads cb.status, so it also works while the job is down. One that was never asked about yet is not in the list:
    'checkback status' counts those, too. Exit status 0, also when there is none.
    """
    from contextlib import closing

    from checkback.half_search import counted
    from checkback.in_doubt import newest
    from checkback.protocol import Topics
    from checkback.topic_reading import own_topic, reading_consumer, records_to_end
    from checkback_cli.listing import show_objects, show_rows
    from checkback_cli.progress import progress
    from conf import load

    kafka = load(config, bootstrap_server).kafka
    status = Topics(kafka.topic_prefix).status
    with (
        closing(reading_consumer(kafka.bootstrap_servers, options=kafka.python_client)) as consumer,
        progress() as tell,
    ):
        own_topic(consumer, status)
        found = newest(counted(records_to_end(consumer, status), status, tell))
    now_ms = int(time.time() * 1000)
    rows = chosen(found.values(), group, topic, now_ms - (older_than or 0))
    if as_json:
        show_objects(row_object(row, now_ms) for row in rows[:limit])
        return
    show_rows(_NAMES, (row_cells(row, now_ms) for row in rows[:limit]))
    if len(rows) > limit:
        typer.echo(f"{len(rows) - limit:,} more: --limit, --group, --topic, --older-than.", err=True)


def chosen(
    rows: "Iterable[InDoubt]", group: str | None = None, topic: str | None = None, before_ms: int | None = None
) -> "list[InDoubt]":
    """Those of a group, for a topic, and taken in no later than ``before_ms``; the oldest first."""
    fitting = (
        row
        for row in rows
        if group in {None, row.group}
        and topic in {None, row.topic}
        and (before_ms is None or row.ingested_ms <= before_ms)
    )
    return sorted(fitting, key=lambda row: (row.ingested_ms, row.half))


def row_cells(row: "InDoubt", now_ms: int) -> tuple[str, ...]:
    """A row of the table."""
    return (
        *(row.transaction_id, row.group, row.topic, str(row.half)),
        *(said_duration(max(0, now_ms - row.ingested_ms)), f"{row.attempt} of {row.check_max}"),
        *(row.last_answer or "-", _next_check(row, now_ms)),
    )


def row_object(row: "InDoubt", now_ms: int) -> dict[str, object]:
    """The same for programs: times in ms."""
    return {**row._asdict(), "half": str(row.half), "age_ms": max(0, now_ms - row.ingested_ms)}


def _next_check(row: "InDoubt", now_ms: int) -> str:
    if not row.next_check_ms:
        return "-"
    if row.next_check_ms <= now_ms:
        return "is due"
    return f"in {said_duration(row.next_check_ms - now_ms)} ({said_time(row.next_check_ms)[11:]})"
