"""What whoever is on call should read first, in sentences."""

from collections.abc import Iterator
from dataclasses import replace

from status_page.facts import GroupFacts, JobFacts

_STANDS_STILL_SECONDS = 60
_BEHIND = 100_000
_LONG_START_SECONDS = 600
"""A start takes a minute or two on a busy machine; its steps are shown in any case."""
_MOST = 10


def notes_of(facts: JobFacts) -> JobFacts:
    """The same with its notes."""
    return replace(facts, notes=tuple(_notes(facts))[:_MOST])


def _notes(facts: JobFacts) -> Iterator[str]:
    since_ms = facts.batch.ended_ms if facts.batch else facts.running_ms
    still = 0 if since_ms is None else (facts.now_ms - since_ms) // 1000
    if facts.kafka_away_ms is not None:
        away = (facts.now_ms - facts.kafka_away_ms) // 1000
        yield f"Kafka at {facts.kafka} does not answer, for {away} s: the job waits for it, and continues by itself."
    elif since_ms is None:
        if facts.now_ms - facts.started_ms >= _LONG_START_SECONDS * 1000:
            yield _starting(facts)
    elif still >= _STANDS_STILL_SECONDS:
        what = "No batch has ended" if facts.batch else "The first batch has not ended"
        yield f"{what} for {still} s: messages wait. 'checkback doctor' checks Kafka, the checkpoint and the machine."
    restart = "Undecided transactions stay open. Restart the job, or 'checkback checks' if checks.in_job is false"
    for effect, cause in (
        ("The access policy that was read before stays in force", facts.policy_wrong),
        ("Some transactions cannot be ended", facts.few_ops),
        (restart, facts.checks_stalled),
    ):
        if cause:
            yield f"{effect}: {cause}"
    for held in facts.held_back:
        yield (
            f"Partition {held.partition} of {held.topic} has been held back by an open Kafka transaction"
            f"{f' of {held.writer}' if held.writer else ''} for {held.seconds:.0f} s: what lies behind it waits."
        )
    behind = sum(one.records for one in facts.backlog or ())
    if behind >= _BEHIND:
        yield f"The job is {behind:,} records behind."
    for group in facts.groups:
        yield from _of_group(group, known=facts.checks_in_job)


def _starting(facts: JobFacts) -> str:
    said = f"The job is starting, for {(facts.now_ms - facts.started_ms) // 1000} s: nothing is taken in yet."
    under_way = next((step for step in reversed(facts.steps) if step.seconds is None), None)
    if under_way is None:
        return said
    return f"{said} Now, for {(facts.now_ms - under_way.began_ms) // 1000} s: {under_way.name}."


def _of_group(group: GroupFacts, *, known: bool) -> Iterator[str]:
    if group.barred:
        yield f"New half messages are rejected: {group.barred}. cb.rejected has them, also if they were committed."
    if known and group.waiting and not any(one.state == "well" for one in group.endpoints):
        why = next((one.reason for one in group.endpoints if one.reason), "it has announced none, or they are gone")
        number = "" if group.open is None else f"; {group.open:,} of its transactions are open"
        yield f"No check endpoint of group {group.group} answers ({why}){number}."
