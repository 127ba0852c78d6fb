"""The first screen's answers: do transactions flow, which are in doubt, is anything parked, is the job behind."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from status_page.facts import FlowPoint, JobFacts
from status_page.words import age, clipped, count, duration, number

_LATE_MS, _STALLED_MS = 15_000, 60_000
"""A job takes a batch at least every few seconds, also when nothing comes."""
_LATE_BATCHES = 3
"""Of a backlog a batch may take longer: it is late after so many times what the last one took."""
_OLD_MS = 600_000
"""A transaction that is in doubt for so long needs somebody: checks end most within a minute."""
_BEHIND_SECONDS = 60.0
_LATELY_MS = 300_000
_NAME, _KIND, _CAUSE = 30, 40, 60
"""Characters: an answer is read in one look, and what is below has the whole of it."""


class Attention(StrEnum):
    """How much somebody has to care."""

    WELL = "well"
    LOOK = "look"
    ACT = "act"


class HealthAnswer(NamedTuple):
    """An answer."""

    question: str
    level: Attention
    answer: str
    """A few words, or a number."""
    detail: str
    link: str = ""


_Verdict = tuple[Attention, str, str]
"""An answer without its question."""
_NONE: Mapping[str, str] = {}
_UNKNOWN = "Not known yet"


def verdicts(facts: JobFacts, *, lacking: str = "", unasked: Mapping[str, str] = _NONE) -> tuple[HealthAnswer, ...]:
    """All four, in the order in which one asks.

    ``lacking``: why the lists are not complete; empty: they are. ``unasked``: groups with some in doubt of which nobody
    can be asked, and why.
    """
    return (
        HealthAnswer("Do transactions flow?", *_flows(facts)),
        HealthAnswer("Which are in doubt?", *_in_doubt(facts, unasked, lacking), "/transactions"),
        HealthAnswer("Is anything parked?", *_parked(facts.parked, lacking), "/parked"),
        HealthAnswer("Is the job behind?", *_behind(facts)),
    )


def per_minute(points: tuple[FlowPoint, ...], name: str, now_ms: int) -> float:
    """Of the last five minutes."""
    lately = [point for point in points if point.time_ms >= now_ms - _LATELY_MS]
    if not lately:
        return 0.0
    minutes = max(now_ms - lately[0].time_ms, 60_000) / 60_000
    return float(sum(getattr(point, name) for point in lately)) / minutes


def _flows(facts: JobFacts) -> _Verdict:
    batch = facts.batch
    if batch is None:
        return _starting(facts)
    still_ms = facts.now_ms - batch.ended_ms
    if still_ms > min(_STALLED_MS, max(_LATE_MS, _LATE_BATCHES * batch.seconds * 1000)):
        level, answer = (Attention.ACT, "No") if still_ms > _STALLED_MS else (Attention.LOOK, "Not at present")
        detail = f"Batch {batch.number:,} ended {age(batch.ended_ms, facts.now_ms)} ago, and none since."
        if facts.kafka_away_ms is not None:
            away = duration((facts.now_ms - facts.kafka_away_ms) / 1000)
            level, answer, detail = Attention.ACT, "No", f"Kafka has not answered for {away}; the job retries."
        return level, answer, detail
    if facts.held:
        most, messages = facts.held[0], sum(one.number for one in facts.held)
        topic, why = clipped(most.topic, _NAME), clipped(most.reason.rstrip("."), _CAUSE)
        waiting = f"{count(messages, 'committed message')} held; topic {topic}: {why}."
        return Attention.LOOK, "Not all", waiting
    half, committed = (per_minute(facts.flow, name, facts.now_ms) for name in ("half", "committed"))
    if not (half or committed):
        since = _lately(facts, "for 5 min")
        waits = sum(one.records for one in facts.backlog or ())
        if waits or facts.backlog is None:
            waiting = f"; {count(waits, 'record')} to be taken in" if waits else ""
            return Attention.LOOK, "Not at present", f"Nothing has been taken in {since}{waiting}."
        return _as_far_as_known(facts, "Quiet", f"The job runs; nothing has come {since}.")
    by_lane = per_minute(facts.flow, "by_lane", facts.now_ms)
    lanes = f" ({number(by_lane)} delivered by their producers' lanes)" if by_lane else ""
    over = _lately(facts, "over the last 5 min")
    detail = f"{number(half)} half messages and {number(committed)} commits{lanes} a minute, {over}."
    return _as_far_as_known(facts, "Yes", detail)


def _as_far_as_known(facts: JobFacts, answer: str, detail: str) -> _Verdict:
    if facts.held_known:
        return Attention.WELL, answer, detail
    held = "Whether messages from before its start are held is not known yet."
    return Attention.LOOK, answer, f"{detail} {held}"


def _starting(facts: JobFacts) -> _Verdict:
    """Before the first batch has ended: which step of the start it is, and for how long."""
    step = next((one for one in reversed(facts.steps) if one.seconds is None), None)
    doing = f" Now, for {duration((facts.now_ms - step.began_ms) / 1000)}: {step.name}." if step else ""
    said = f"No batch has ended yet; started {_ago(facts.started_ms, facts.now_ms)}.{doing}"
    late = facts.running_ms is not None and facts.now_ms - facts.running_ms > _STALLED_MS
    return Attention.ACT if late else Attention.LOOK, "No" if late else "Starting", said


def _ago(then_ms: int, now_ms: int) -> str:
    said = age(then_ms, now_ms)
    return said if said == "just now" else f"{said} ago"


def _lately(facts: JobFacts, five_minutes: str) -> str:
    if facts.now_ms - facts.started_ms >= _LATELY_MS:
        return five_minutes
    return f"since the start, {_ago(facts.started_ms, facts.now_ms)}"


def _in_doubt(facts: JobFacts, unasked: Mapping[str, str], lacking: str) -> _Verdict:
    total, oldest_ms = facts.in_doubt, facts.in_doubt_oldest_ms
    if total is None:
        return Attention.LOOK, _UNKNOWN, clipped(lacking, 2 * _CAUSE)
    blind = facts.batch is None  # what of these is decided, what else waits, and whom one can ask, is not known yet
    if not total or oldest_ms is None:
        if blind:
            return Attention.LOOK, _UNKNOWN, "No batch has ended since the job's start."
        return Attention.WELL, "None", "Nothing is open that had to be asked about."
    waited = facts.now_ms - oldest_ms
    level = Attention.LOOK if blind or waited >= _OLD_MS else Attention.WELL
    said = "The oldest one was" if total > 1 else "It was"
    detail = f"{said} taken in {_ago(oldest_ms, facts.now_ms)}."
    if unasked:
        level = Attention.ACT
        name, why = next(iter(unasked.items()))
        more = f" and {count(len(unasked) - 1, 'other')}" if len(unasked) > 1 else ""
        kind = clipped(why.partition(":")[0], _KIND)  # not which, and what it said: that is below
        detail = f"Nobody to ask in group {clipped(name, _NAME)} ({kind}){more}."
    return level, number(total), detail


def _parked(total: int | None, lacking: str) -> _Verdict:
    if total is None:
        return Attention.LOOK, _UNKNOWN, clipped(lacking, 2 * _CAUSE)
    if not total:
        return Attention.WELL, "Nothing", "No message waits for an operator."
    waits = "message waits" if total == 1 else "messages wait"
    return Attention.ACT, number(total), f"{waits.capitalize()} for an operator's decision."


def _behind(facts: JobFacts) -> _Verdict:
    held = max(facts.held_back, key=lambda one: one.seconds, default=None)
    if held is not None:
        detail = (
            f"Somebody's open Kafka transaction has hidden partition {held.partition} of {held.topic} "
            f"for {duration(held.seconds)}{f': it is of {held.writer}' if held.writer else ''}."
        )
        return Attention.LOOK, "Held back", detail
    if facts.backlog is None:
        return Attention.LOOK, _UNKNOWN, "What waits in Kafka, or what has been taken in, is not known."
    records = sum(one.records for one in facts.backlog)
    if records:
        return _waiting(facts, records)
    if facts.batch is None:
        return Attention.LOOK, "Starting", "Nothing waits in Kafka; no batch has ended yet."
    return Attention.WELL, "No", "All records have been taken in."


def _waiting(facts: JobFacts, records: int) -> _Verdict:
    batch, waits = facts.batch, count(records, "record")
    if batch and facts.now_ms - batch.ended_ms < _BEHIND_SECONDS * 1000 and records <= (facts.batch_limit or 0):
        return Attention.WELL, "No", f"{waits} to be taken in: the next batch reads them all."
    # the fastest: a batch of few records takes as long as one of many, and says nothing of what the job can do
    speed = max((one.records_per_second for one in (*facts.batches, *([batch] if batch else []))), default=0.0)
    seconds = records / speed if speed else None
    if seconds is not None and seconds < _BEHIND_SECONDS:
        return Attention.WELL, "No", f"{waits} to be taken in: {duration(seconds)} at its best speed."
    after = f"{duration(seconds)} at its best speed" if seconds else _nothing_taken_in(facts)
    return Attention.LOOK, "Yes", f"{waits} to be taken in: {after}."


def _nothing_taken_in(facts: JobFacts) -> str:
    return "the last batch took in none" if facts.batch else "no batch has ended yet"
