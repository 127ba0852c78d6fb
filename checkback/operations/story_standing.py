"""How a transaction stands, judged by its events: what whoever is on call wants to know first."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from checkback.operations.in_doubt import InDoubt
from checkback.operations.story_events import EventKind, StoryEvent
from checkback.operations.times import said_time
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfAction

_DECISIONS = {Action.COMMIT, Action.ROLLBACK}


class Stand(StrEnum):
    """How a transaction stands."""

    DELIVERED = "delivered"
    COMMITTED = "committed"
    """And not found in its topic, or not yet due there."""
    HELD = "held"
    """Committed; its topic does not take it now."""
    ROLLED_BACK = "rolled back"
    PARKED = "parked"
    """An operator decides."""
    ABANDONED = "abandoned"
    """Parked for longer than the job keeps it."""
    REJECTED = "rejected"
    IN_DOUBT = "in doubt"
    """Its producers have been asked about it, and it is undecided."""
    OPEN = "open"
    """Undecided, and nobody has been asked yet."""
    UNKNOWN = "unknown"
    """Its records are gone, or have not been looked at."""


class StoryStanding(NamedTuple):
    """How it stands, and why one thinks so."""

    stand: Stand
    why: str

    def __str__(self) -> str:
        return f"{self.stand}{f': {self.why}' if self.why else ''}"


def standing(events: Sequence[StoryEvent], row: InDoubt | None = None) -> StoryStanding:
    """How the transaction of these events, in their order, stands; ``row`` is what ``cb.status`` has of it now.

    As far as the events go: an op that the job has not read yet counts, and what is not among them does not.
    """
    half = next((event for event in events if event.kind is EventKind.HALF), None)
    arrived = [event for event in events if event.kind is EventKind.DELIVERED]
    whole = max(1, half.messages if half else 1)
    if arrived and len({event.transaction_id for event in arrived}) >= whole:
        return StoryStanding(Stand.DELIVERED, ", ".join(event.place for event in arrived))
    found = _parked(events) or _refused_half(events) or _decided(events, half, row)
    if found is None:
        found = _undecided(events, half, row)
    if arrived:
        found = found._replace(why=f"{len(arrived)} of {whole} messages delivered; {found.why}")
    return found


def decision(events: Sequence[StoryEvent]) -> StoryEvent | None:
    """The op that decided the half message; None when there is none among these events.

    The first commit or rollback, in the order of the op topic, that the job has not refused.
    """
    refused = {event.refused for event in events if event.kind is EventKind.REFUSED}
    own = _own(events)
    ops = [
        event
        for event in events
        if event.kind is EventKind.OP
        and event.action in _DECISIONS
        and event.place not in refused
        and own in {None, (event.transaction_id, event.group)}
    ]
    return min(ops, key=_offset, default=None)


def _own(events: Sequence[StoryEvent]) -> tuple[str, str] | None:
    return next(((event.transaction_id, event.group) for event in events if event.kind is EventKind.HALF), None)


def _offset(event: StoryEvent) -> int:
    return int(event.place.rpartition(":")[2])


def _parked(events: Sequence[StoryEvent]) -> StoryStanding | None:
    last = [event for event in events if event.kind in {EventKind.PARKED, EventKind.NOT_PARKED}][-1:]
    if not last:
        return None
    (event,) = last
    if event.kind is EventKind.PARKED:
        refused = {one.refused for one in events if one.kind is EventKind.REFUSED}
        waiting = [
            one
            for one in events
            if one.kind is EventKind.OP
            and one.source == protocol.Source.OPERATOR
            and one.half == event.half
            and one.time_ms >= event.time_ms
            and one.place not in refused
        ]
        if waiting:
            return StoryStanding(Stand.PARKED, f"the operator's {waiting[0].action} waits for the job")
        return StoryStanding(Stand.PARKED, event.reason)
    became = event.action
    if became.startswith("committed"):
        return StoryStanding(
            Stand.COMMITTED if became == "committed" else Stand.HELD, "by an operator, after it was parked"
        )
    stands = {"rolled back": Stand.ROLLED_BACK, "abandoned": Stand.ABANDONED}
    return StoryStanding(stands[became], "after it was parked") if became in stands else None


def _refused_half(events: Sequence[StoryEvent]) -> StoryStanding | None:
    for event in events:
        if event.kind is EventKind.REJECTED:
            return StoryStanding(Stand.REJECTED, event.reason)
    return None


def _decided(events: Sequence[StoryEvent], half: StoryEvent | None, row: InDoubt | None) -> StoryStanding | None:
    held = [event for event in events if event.kind in {EventKind.HELD, EventKind.UNDELIVERABLE}]
    if held:
        return StoryStanding(Stand.HELD, held[-1].reason)
    missing = "not found in its topic"
    if half is not None and half.deliver_at_ms:
        missing += f", where it is to arrive at {said_time(half.deliver_at_ms)} at the earliest"
    else:
        missing += ": not delivered yet, or no longer kept there"
    if half is not None and half.action == HalfAction.COMMIT:
        return StoryStanding(Stand.COMMITTED, f"it carries its own decision; {missing}")
    op = decision(events)
    if op is None:
        return None
    by = f"by {op.source}{f' {op.who}' if op.who else ''}"
    if row is not None:
        stand = Stand.COMMITTED if op.action == Action.COMMIT else Stand.ROLLED_BACK
        return StoryStanding(stand, f"{by}; the job has not taken that in yet")
    if op.action == Action.ROLLBACK:
        return StoryStanding(Stand.ROLLED_BACK, by)
    return StoryStanding(Stand.COMMITTED, f"{by}; {missing}")


def _undecided(events: Sequence[StoryEvent], half: StoryEvent | None, row: InDoubt | None) -> StoryStanding:
    if row is not None:
        if row.last_answer == Action.UNREACHABLE:
            asked = f"asked {row.attempts} of {row.check_max}" if row.attempts else "not asked yet"
            answers = sum(event.kind is EventKind.OP and event.action == Action.UNREACHABLE for event in events)
            tries = row.misses or answers
            return StoryStanding(Stand.IN_DOUBT, f"{asked}: nobody reachable{f', {tries} tries' if tries > 1 else ''}")
        answer = f", last answer {row.last_answer}" if row.last_answer else ", not answered yet"
        return StoryStanding(Stand.IN_DOUBT, f"attempt {row.attempt} of {row.check_max}{answer}")
    if half is None:
        return StoryStanding(Stand.UNKNOWN, "its half message is gone from the half topic")
    if any(event.kind is EventKind.CHECK for event in events):
        return StoryStanding(Stand.UNKNOWN, "it was checked and is no longer in doubt, and no decision was found")
    return StoryStanding(Stand.OPEN, "no op decides it, and nobody was asked yet")
