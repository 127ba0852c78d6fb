"""``checkback status``."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from checkback.operations.times import said_duration, said_time
from checkback_cli.terminal.options import WRONG, AsJson, BootstrapServer, ConfigFile, JobUrl

if TYPE_CHECKING:
    from checkback_cli.on_call.asking_job import Job
    from conf import Settings
    from status_page.facts import GroupFacts, JobFacts, PartitionBacklog, TopicInDoubt

_FLOW = ("half", "committed", "by_lane", "rolled_back", "checked", "parked", "rejected", "retried")
_MOST_GROUPS = 20
_MOST_TOPICS = 20
_HOUR_MS = 3_600_000
UNKNOWN = "not known yet"


def status(
    job: JobUrl = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Say how the job stands: flow, last batch, backlog, open transactions by group, what is parked or held back.

    Asks the job itself, and reads no topic: first at the configured address (http.host, http.port), then at the one
    that the job has noted in Kafka. Exit status 0: the job answers; 1: it does not, and what Kafka says is shown; 75:
    no Kafka answers either.
    """
    from checkback_cli.on_call.asking_job import find_job, in_doubt_by_topic
    from checkback_cli.terminal.listing import show_objects, show_pairs
    from conf import load

    settings = load(config, bootstrap_server)
    found = find_job(settings, job)
    said = None if found.facts or job else _without_job(settings)
    if as_json:
        show_objects([_object(found, said)])
    elif found.facts is not None:
        show_facts(found.facts, in_doubt_by_topic(found.page))
    else:
        show_pairs(_silent(found, said))
    if found.facts is None:
        raise typer.Exit(WRONG)


def show_facts(facts: "JobFacts", in_doubt: "Iterable[TopicInDoubt] | None") -> None:
    """Print what a job says of itself; ``in_doubt``: None where it does not say."""
    from checkback_cli.terminal.listing import show_pairs, show_rows

    show_pairs([*summary(facts), *unasked(in_doubt)])
    groups = [group for group in facts.groups if group.open != 0 or group.parked or group.delayed or group.barred]
    if groups:
        rows = (group_row(group, facts.now_ms) for group in groups[:_MOST_GROUPS])
        show_rows(("group", "open", "oldest", "delayed", "parked", "checks waiting", "barred"), rows)


def summary(facts: "JobFacts") -> Iterator[tuple[str, str]]:
    """Names and values, what is to be read first at the beginning."""
    for note in facts.notes:
        yield "note", note
    up = said_duration(facts.now_ms - facts.started_ms)
    yield "job", f"{facts.job} {facts.version} on {facts.host}, up for {up}, Kafka at {facts.kafka}"
    batch = facts.batch
    yield "flow now", UNKNOWN if batch is None else _flow_now(facts)
    hour = "since start" if facts.now_ms - facts.started_ms < _HOUR_MS else "last hour"
    counts = {name: sum(getattr(point, name) for point in facts.flow) for name in _FLOW}
    yield hour, UNKNOWN if batch is None else _counts(counts)
    if batch is None:
        yield "last batch", "none has ended yet"
        yield from _steps(facts)
    else:
        ended = said_duration(max(0, facts.now_ms - batch.ended_ms))
        took = f"took {batch.seconds:.1f} s, {batch.records:,} records, {batch.records_per_second:,.0f}/s"
        yield "last batch", f"{batch.number}, {ended} ago, {took}"
    yield "backlog", _backlog(facts.backlog)
    yield "open", _open(facts)
    yield "parked", UNKNOWN if facts.parked is None else f"{facts.parked:,}"
    for line in held_now(facts):
        yield "held", line
    for one in facts.refused:
        what = f"{one.number:,} of group {one.group} {f'for {one.topic}' if one.topic else '(ops)'} since the start"
        ago = said_duration(max(0, facts.now_ms - one.last_ms))
        yield "refused", f"{what}, the last {ago} ago: {one.reason}"
    for held in facts.held_back:
        place = f"{held.topic}-{held.partition}"
        writer = f" ({held.writer})" if held.writer else ""
        yield "held back", f"{place} for {held.seconds:.0f} s by somebody's open Kafka transaction{writer}"


def held_now(facts: "JobFacts", topic: str | None = None) -> Iterator[str]:
    """Committed messages that their topic, or this one, does not take: how many, why, and when they are tried next.

    Those from before the start are known after up to 10 min.
    """
    if facts.batch is None and not facts.held:
        yield UNKNOWN
    elif not facts.held_known:
        yield f"from before the start: {UNKNOWN}"
    wanted = [one for one in facts.held if topic in {None, one.topic}]
    for one in wanted[:_MOST_TOPICS]:
        wait_ms = one.next_ms - facts.now_ms
        following = f"next try in {said_duration(wait_ms)}" if wait_ms > 0 else "next try is due"
        yield f"{one.number:,} committed for {one.topic}: {one.reason.rstrip('.')}; {following}"
    if len(wanted) > _MOST_TOPICS:
        yield f"and for {len(wanted) - _MOST_TOPICS:,} more topics"


def unasked(in_doubt: "Iterable[TopicInDoubt] | None") -> Iterator[tuple[str, str]]:
    """Where some are in doubt about which nobody can be asked, and why."""
    if in_doubt is None:
        yield "stuck", "not known: the job's page does not say, or has not read its lists yet"
        return
    found = [one for one in in_doubt if one.unasked]
    for one in found[:_MOST_GROUPS]:
        stuck = f"{one.number:,} in doubt of group {one.group} for topic {one.topic}"
        yield "stuck", f"{stuck}: nobody can be asked; {one.unasked}"
    if len(found) > _MOST_GROUPS:
        yield "stuck", f"and in {len(found) - _MOST_GROUPS:,} more groups and topics"


def _steps(facts: "JobFacts") -> Iterator[tuple[str, str]]:
    for step in facts.steps:
        took = said_duration(int((step.seconds or 0) * 1000))
        under_way = f"for {said_duration(facts.now_ms - step.began_ms)}, under way"
        yield "start-up", f"{step.name}: {under_way if step.seconds is None else took}"


def _backlog(backlog: "tuple[PartitionBacklog, ...] | None") -> str:
    from status_page.words import count

    if backlog is None:
        return UNKNOWN
    behind = [one for one in backlog if one.records]
    places = ", ".join(f"{one.topic}-{one.partition} {one.records:,}" for one in behind[:5])
    total = count(sum(one.records for one in behind), "record")
    return f"{total} ({places})" if places else total


def group_row(group: "GroupFacts", now_ms: int) -> tuple[object, ...]:
    """A row of the table of groups."""
    oldest = "" if group.oldest_ms is None else said_duration(max(0, now_ms - group.oldest_ms))
    numbers = ("-" if one is None else one for one in (group.open, group.delayed, group.parked))
    open_now, delayed, parked = numbers
    return group.group, open_now, oldest, delayed, parked, group.waiting, group.barred


def _flow_now(facts: "JobFacts") -> str:
    """Of the stretch under way, which may have only begun, and the one before it."""
    points = facts.flow[-2:]
    if not points:
        return "nothing"
    seconds = max(1.0, (facts.now_ms - max(points[0].time_ms, facts.started_ms)) / 1000)
    rates = {name: sum(getattr(point, name) for point in points) / seconds for name in _FLOW}
    return _counts({name: f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s" for name, rate in rates.items() if rate})


def _counts(counts: dict[str, Any]) -> str:
    said = [
        f"{name.replace('_', ' ')} {count:,}" if isinstance(count, int) else f"{name.replace('_', ' ')} {count}"
        for name, count in counts.items()
        if count
    ]
    return ", ".join(said) or "nothing"


def _open(facts: "JobFacts") -> str:
    if not facts.counted:
        return f"{UNKNOWN}: it is counted within some minutes of the start"
    number = f"{sum(group.open or 0 for group in facts.groups):,}"
    oldest = min((group.oldest_ms for group in facts.groups if group.oldest_ms is not None), default=None)
    return number if oldest is None else f"{number}, the oldest for {said_duration(max(0, facts.now_ms - oldest))}"


def _without_job(settings: "Settings") -> dict[str, Any]:
    """What Kafka knows when no job answers."""
    from checkback.operations.job_in_kafka import JobInKafka
    from checkback.operations.parked import ParkedMessages

    client = settings.kafka
    where = client.bootstrap_servers, client.topics, client.python_client
    with JobInKafka(*where) as kafka, ParkedMessages(*where) as parked:
        return {"behind": kafka.behind(), "parked": len(parked.read())}


def _silent(found: "Job", said: dict[str, Any] | None) -> Iterator[tuple[str, object]]:
    yield "no answer", found.silence
    if found.claim is not None:
        yield "claimed by", f"{found.claim} (this says who was last, not that it runs)"
    if said is not None:
        behind = said["behind"]
        yield "behind", "not known" if behind is None else f"at most {behind:,} records of the half and the op topic"
        yield "parked", f"{said['parked']:,}"
    yield "at", f"{said_time(int(time.time() * 1000))} UTC"


def _object(found: "Job", said: dict[str, Any] | None) -> dict[str, Any]:
    from dataclasses import asdict

    claim = None if found.claim is None else found.claim._asdict()
    facts = None if found.facts is None else asdict(found.facts)
    return {"job": facts, "page": found.page, "no_answer": found.silence, "claim": claim, **(said or {})}
