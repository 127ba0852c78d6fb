"""``checkback open``."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from checkback.operations.times import said_duration, said_time
from checkback_cli.terminal.options import AsJson, BootstrapServer, ConfigFile, Group, JobUrl, OlderThan, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from checkback.operations.in_doubt import InDoubt
    from checkback.operations.producers import AnnouncedEndpoint
    from conf import CheckSettings
    from status_page.facts import GroupFacts, JobFacts, TopicInDoubt

_MOST_REASONS = 8
_MOST_CAUSES = 3
"""Of one kind in one group that are told apart."""
_NAMES = ("transaction", "group", "topic", "half", "age", "attempts", "last answer", "next check", "why")


def in_doubt(
    group: Group = None,
    topic: Topic = None,
    older_than: OlderThan = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="List at most this many, the oldest.")] = 1_000,
    job: JobUrl = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """List transactions in doubt, the oldest first, and why: those that were checked at least once and are undecided.

    Reads cb.status and cb.producers, so it also works while the job is down. One that was never asked about
    yet is not in the list: 'checkback status' counts those, too. A job that answers also says whom it can ask, and
    which committed messages are held. Exit status 0, also when there is none.
    """
    from checkback.kafka.topic_reading import own_topic, records_to_end
    from checkback.operations.half_search import all_in_doubt
    from checkback.operations.producers import announced
    from checkback_cli.on_call.asking_job import find_job
    from checkback_cli.terminal.listing import note, note_missing, show_objects, show_rows
    from checkback_cli.terminal.progress import progress
    from checkback_cli.terminal.reading import reading
    from conf import load

    settings = load(config, bootstrap_server)
    kafka, topics = settings.kafka, settings.kafka.topics
    with (
        reading(kafka) as consumer,
        progress() as tell,
    ):
        found = all_in_doubt(consumer, topics, tell)
        heard = announced(records_to_end(consumer, own_topic(consumer, topics.producers)))
    now_ms = int(time.time() * 1000)
    facts = find_job(settings, job).facts
    groups = groups_of({row.group for row in found.values()}, heard, settings.checks, now_ms, facts)
    rows = chosen(found.values(), group, topic, now_ms - (older_than or 0))
    note_missing(group, (row.group for row in found.values()))
    if as_json:
        show_objects(row_object(row, groups[row.group], now_ms) for row in rows[:limit])
        return
    show_rows(_NAMES, (row_cells(row, groups[row.group], now_ms) for row in rows[:limit]), by="why")
    for line in counts_by_reason(rows, groups):
        note(line)
    for line in held_lines(facts, topic):
        note(line)
    if len(rows) > limit:
        note(f"{len(rows) - limit:,} more: --limit, --group, --topic, --older-than.")


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


def counted(
    rows: "Iterable[InDoubt]",
    heard: "Iterable[AnnouncedEndpoint]",
    checks: "CheckSettings",
    now_ms: int,
    facts: "JobFacts | None" = None,
) -> "list[TopicInDoubt]":
    """How many of which group and topic, those with most first, and why nobody can be asked."""
    from collections import Counter

    from status_page.facts import topics_in_doubt

    counts = Counter((row.group, row.topic) for row in rows)
    return topics_in_doubt(counts, groups_of({group for group, _ in counts}, heard, checks, now_ms, facts))


def groups_of(
    names: "Iterable[str]",
    heard: "Iterable[AnnouncedEndpoint]",
    checks: "CheckSettings",
    now_ms: int,
    facts: "JobFacts | None",
) -> "dict[str, GroupFacts]":
    """These groups, with whether anybody can be asked: as the job says, or else as Kafka and the settings say."""
    known = (*known_groups(names, heard, checks, now_ms), *asked_by(facts))
    return {group.group: group for group in known}


def known_groups(
    names: "Iterable[str]", heard: "Iterable[AnnouncedEndpoint]", checks: "CheckSettings", now_ms: int
) -> "Iterator[GroupFacts]":
    """What Kafka and the settings say of these groups: whether they have an endpoint that may be asked."""
    from status_page.facts import GroupFacts
    from status_page.words import NO_ENDPOINT

    of_group: dict[str, list[AnnouncedEndpoint]] = {}
    for one in heard:
        of_group.setdefault(one.group, []).append(one)
    for name in names:
        announced = of_group.get(name, [])
        live = [one.topics for one in announced if now_ms - one.heard_ms < checks.endpoint_ttl]
        if checks.endpoints.get(name) or None in live:
            yield GroupFacts(name)
        elif live:
            yield GroupFacts(name, answers_for=tuple({topic for topics in live for topic in topics or ()}))
        else:
            silent_ms = now_ms - max((one.heard_ms for one in announced), default=0)
            gone = f"endpoint skipped: no heartbeat for {said_duration(silent_ms)}"
            yield GroupFacts(name, unasked=gone if announced else NO_ENDPOINT)


def asked_by(facts: "JobFacts | None") -> "Iterator[GroupFacts]":
    """Groups of which the job says whether anybody can be asked: it knows which endpoints it leaves alone, and why."""
    if facts is not None:
        yield from (group for group in facts.groups if facts.endpoints_known or group.unasked)


def held_lines(facts: "JobFacts | None", topic: str | None) -> "Iterator[str]":
    """What the list lacks, and what is held for this topic, or for any, as the job says."""
    from checkback_cli.on_call.status import held_now

    if facts is None:
        yield "Held: not known, as no job answers: 'checkback status' says why."
        return
    if facts.batch is None:
        yield "No batch has ended since the job's start: half messages that wait in Kafka are not in this list."
    for line in held_now(facts, topic):
        yield f"Held: {line}."


def counts_by_reason(rows: "Iterable[InDoubt]", groups: "Mapping[str, GroupFacts]") -> "Iterator[str]":
    """How many there are for which reason, those with most first; where the causes are many, with the most frequent."""
    from collections import Counter

    from status_page.words import Reason, reason_of

    counts = Counter((row.group, reason_of(row, groups[row.group])) for row in rows)
    causes = Counter((group, reason.kind) for group, reason in counts)
    told: Counter[tuple[str, Reason]] = Counter()
    for (group, reason), number in counts.most_common():
        many = causes[group, reason.kind] > _MOST_CAUSES
        first = next((one for of, one in told if many and (of, one.kind) == (group, reason.kind)), reason)
        told[group, first] += number
    for (group, reason), number in told.most_common(_MOST_REASONS):
        many = causes[group, reason.kind] > _MOST_CAUSES
        said = f"{reason.kind}; most often: {reason.cause}" if many else str(reason)
        yield f"{number:,} of group {group}: {said}."
    if len(told) > _MOST_REASONS:
        yield f"And for {len(told) - _MOST_REASONS:,} more reasons."


def row_cells(row: "InDoubt", group: "GroupFacts", now_ms: int) -> tuple[str, ...]:
    """A row of the table."""
    from status_page.words import reason_of, said_attempts

    return (
        *(row.transaction_id, row.group, row.topic, str(row.half)),
        *(said_duration(max(0, now_ms - row.ingested_ms)), said_attempts(row)),
        *(row.last_answer or "-", _next_check(row, now_ms), str(reason_of(row, group))),
    )


def row_object(row: "InDoubt", group: "GroupFacts", now_ms: int) -> dict[str, object]:
    """The same for programs: times in ms."""
    from status_page.words import why_in_doubt

    age_ms = max(0, now_ms - row.ingested_ms)
    return {**row._asdict(), "half": str(row.half), "age_ms": age_ms, "why": why_in_doubt(row, group)}


def _next_check(row: "InDoubt", now_ms: int) -> str:
    if not row.next_check_ms:
        return "-"
    if row.next_check_ms <= now_ms:
        return "is due"
    return f"in {said_duration(row.next_check_ms - now_ms)} ({said_time(row.next_check_ms)[11:]})"
