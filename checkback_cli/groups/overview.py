"""``checkback groups``."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from checkback.operations.times import said_duration
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, JobUrl
from checkback_cli.terminal.reading import reading

if TYPE_CHECKING:
    from checkback.operations.in_doubt import InDoubt
    from checkback.operations.parked import ParkedMessage
    from checkback.operations.producers import AnnouncedEndpoint
    from checkback_cli.groups.consumer_groups import Delayed
    from checkback_cli.on_call.asking_job import Job
    from conf import CheckSettings, Settings
    from status_page.facts import GroupFacts, JobFacts, TopicInDoubt

_NAMES = ("group", "open", "in doubt", "oldest", "parked", "endpoints")
_MOST_TOLD = 1_000
"""Groups; a job tells of no more."""


class Kind(StrEnum):
    """The kinds of groups."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


AnyGroup = Annotated[str | None, typer.Option(help="Only the group of this name.", show_default=False)]
OnlyKind = Annotated[Kind | None, typer.Option(help="Only groups of this kind.", show_default=False)]


class GroupRow(NamedTuple):
    """A producer group, as far as it is known."""

    group: str
    open: int | None
    """Undecided transactions; None: only the job knows."""
    in_doubt: int | None
    """Those of them that were checked; None: it was not looked at."""
    oldest_ms: int | None
    parked: int | None
    """None: the job has not counted yet."""
    endpoints: tuple[dict[str, Any], ...]
    unasked: dict[str, str]
    """Topics for which some are in doubt, and nobody can be asked; and why."""


def groups(
    group: AnyGroup = None,
    kind: OnlyKind = None,
    job: JobUrl = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List producer groups and consumer groups: what is open and parked, endpoints; who is behind, and by how much.

    Producer groups: what is open, the oldest of it, what is parked, their check endpoints and how these do. As the job
    says; without one that answers, as Kafka says: what is in doubt, parked and announced; which endpoints do well
    nobody knows then.

    Consumer groups, as Kafka says: those of Checkback's consumers, and others that read topics to which Checkback
    delivers. Members (0: nobody runs), lag, partitions of which nothing is stored, what is to be tried again, dead
    letters. 'checkback offsets show' has the partitions.
    """
    from checkback_cli.on_call.asking_job import find_job
    from checkback_cli.terminal.listing import note
    from conf import load

    settings = load(config, bootstrap_server)
    found = find_job(settings, job)
    if found.facts is None:
        note(f"{found.silence} What follows is what Kafka says.")
    elif not found.facts.counted:
        note("The job has started lately, and is counting what is open.")
    if kind is not Kind.CONSUMER:
        _show_producers(settings, found, group, as_json=as_json)
    if kind is not Kind.PRODUCER:
        _show_consumers(settings, found, group, as_json=as_json)


def _show_producers(settings: "Settings", found: "Job", only: str | None, *, as_json: bool) -> None:
    from checkback_cli.terminal.listing import show_objects, show_rows

    if found.facts is None:
        now_ms = int(time.time() * 1000)
        rows = _of_kafka(settings, now_ms)
    else:
        now_ms = found.facts.now_ms
        rows = _of_page(found.page, found.facts)
    rows = [row for row in rows if only in {None, row.group}]
    if as_json:
        show_objects({"kind": Kind.PRODUCER, **row._asdict()} for row in rows)
        return
    show_rows(*_marked(_NAMES, [cells(row, now_ms) for row in rows], Kind.PRODUCER), title="Producer groups")


def _show_consumers(settings: "Settings", found: "Job", only: str | None, *, as_json: bool) -> None:
    from checkback_cli.groups import consumer_groups
    from checkback_cli.terminal.listing import show_objects, show_rows

    rows, unknown = consumer_groups.read_consumers(settings.kafka, only, _delayed(found.facts))
    consumer_groups.tell_unknown(unknown)
    if as_json:
        show_objects(map(consumer_groups.as_object, rows))
        return
    shown = _marked(consumer_groups.NAMES, [consumer_groups.cells(row) for row in rows], Kind.CONSUMER)
    show_rows(*shown, title="Consumer groups")


def _delayed(facts: "JobFacts | None") -> "Delayed":
    """How many messages of a group wait in the job, as that says."""
    if facts is None:
        return lambda _: None
    known = {one.group: one.delayed for one in facts.groups}
    others = 0 if len(known) < _MOST_TOLD else None
    return lambda group: known.get(group, others)


def _marked(
    names: Sequence[str], rows: Sequence[Sequence[object]], kind: Kind
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """In a pipe, where no heading tells the two kinds of lines apart, each ends with its kind."""
    if Console().is_terminal:
        return names, rows
    return (*names, "kind"), [(*row, kind) for row in rows]


def cells(row: GroupRow, now_ms: int) -> tuple[object, ...]:
    """A row of the table."""
    oldest = "-" if row.oldest_ms is None else said_duration(max(0, now_ms - row.oldest_ms))
    open_now, in_doubt, parked = ("-" if number is None else number for number in (row.open, row.in_doubt, row.parked))
    endpoints = "; ".join(map(_endpoint, row.endpoints)) or "none"
    nobody = f"; nobody to ask for {', '.join(row.unasked)}" if row.unasked else ""
    return row.group, open_now, in_doubt, oldest, parked, f"{endpoints}{nobody}"


def from_topics(
    announcements: Sequence["AnnouncedEndpoint"],
    in_doubt: Sequence["InDoubt"],
    parked: Sequence["ParkedMessage"],
    checks: "CheckSettings",
    now_ms: int,
) -> list[GroupRow]:
    """Groups as Kafka's topics and the settings have them, by name."""
    from checkback_cli.on_call.in_doubt import counted
    from conf.redaction import redacted

    waiting, given_up = Counter(row.group for row in in_doubt), Counter(one.group for one in parked)
    fixed = {name: [str(url) for url in urls] for name, urls in checks.endpoints.items()}
    by_topic = counted(in_doubt, announcements, checks, now_ms)
    oldest: dict[str, int] = {}
    for row in in_doubt:
        oldest[row.group] = min(oldest.get(row.group, row.ingested_ms), row.ingested_ms)
    endpoints: dict[str, list[dict[str, Any]]] = {}
    for one in announcements:
        heard = {"url": redacted(one.url), "heard_seconds": max(0.0, (now_ms - one.heard_ms) / 1000)}
        endpoints.setdefault(one.group, []).append(heard)
    for name, urls in fixed.items():
        endpoints.setdefault(name, []).extend({"url": redacted(url), "heard_seconds": None} for url in urls)
    return [
        GroupRow(
            *(name, None, waiting[name], oldest.get(name), given_up[name]),
            *(tuple(endpoints.get(name, ())), _unasked(by_topic, name)),
        )
        for name in sorted({*waiting, *given_up, *endpoints})
    ]


def _unasked(in_doubt: Iterable["TopicInDoubt"], group: str) -> dict[str, str]:
    return {one.topic: one.unasked for one in in_doubt if one.unasked and one.group == group}


def _of_page(page: str, facts: "JobFacts") -> list[GroupRow]:
    from checkback_cli.on_call.asking_job import in_doubt_by_topic
    from status_page.facts import GroupFacts

    counted = in_doubt_by_topic(page)
    known = {one.group for one in facts.groups}
    unknown = [GroupFacts(name) for name in sorted({one.group for one in counted or ()} - known)]
    return [_of_job(one, counted) for one in (*facts.groups, *unknown)]


def _of_job(one: "GroupFacts", in_doubt: Sequence["TopicInDoubt"] | None) -> GroupRow:
    from dataclasses import asdict

    number = None if in_doubt is None else sum(of.number for of in in_doubt if of.group == one.group)
    endpoints = tuple(asdict(endpoint) for endpoint in one.endpoints)
    unasked = _unasked(in_doubt or (), one.group)
    return GroupRow(one.group, one.open, number, one.oldest_ms, one.parked, endpoints, unasked)


def _endpoint(one: dict[str, Any]) -> str:
    heard = "" if one["heard_seconds"] is None else f"heard {said_duration(one['heard_seconds'] * 1000)} ago"
    parts = (one.get("state", ""), one.get("reason", "").removeprefix(f"{one['url']}: "), heard)
    said = ", ".join(part for part in parts if part)
    return f"{one['url']}{f' ({said})' if said else ''}"


def _of_kafka(settings: "Settings", now_ms: int) -> list[GroupRow]:

    from checkback.kafka.topic_reading import own_topic, records_to_end
    from checkback.operations.half_search import all_in_doubt
    from checkback.operations.parked import ParkedMessages
    from checkback.operations.producers import announced

    kafka, topics = settings.kafka, settings.kafka.topics
    with reading(kafka) as consumer:
        heard = announced(records_to_end(consumer, own_topic(consumer, topics.producers)))
        rows = list(all_in_doubt(consumer, topics).values())
    with ParkedMessages(kafka.bootstrap_servers, topics, kafka.python_client) as messages:
        parked = messages.read()
    return from_topics(heard, rows, parked, settings.checks, now_ms)
