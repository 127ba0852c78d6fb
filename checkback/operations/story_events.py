"""What happened to a transaction: records of Checkback's topics, and of real ones, as events for people."""

from enum import StrEnum
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.operations.in_doubt import place_of, row_of
from checkback.operations.times import said_time
from checkback.wire import protocol
from checkback.wire.json_reading import read_object
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import HalfAction, HalfPosition, HeldNote, Topics

_MOST_CHARACTERS = 512
"""Of a remark or a reason."""


class EventKind(StrEnum):
    """What an event is."""

    HALF = "half"
    """A half message was written."""
    OP = "op"
    """Somebody said what became of it: ``action`` and ``source``."""
    CHECK = "check"
    """The job had its producers asked: ``attempt`` of ``check_max``."""
    IN_DOUBT = "in doubt"
    """The job wrote that it was asked about and is undecided."""
    NOT_IN_DOUBT = "no longer in doubt"
    """It was decided or parked."""
    DELIVERED = "delivered"
    """It is in its real topic."""
    HELD = "held"
    """It was committed, and its topic did not take it: it is tried again."""
    UNDELIVERABLE = "undeliverable"
    """It was committed, and its topic does not take it: it is to be parked."""
    PARKED = "parked"
    """It was given up on: an operator decides."""
    NOT_PARKED = "no longer parked"
    """It waits for an operator no longer: ``action`` says what became of it."""
    REJECTED = "rejected"
    """The job has not taken the half message."""
    REFUSED = "refused"
    """The job has not taken an op: ``refused`` says which."""


class StoryEvent(NamedTuple):
    """One record. Fields that say nothing of it are empty."""

    time_ms: int
    """By Kafka's clock, in ms since 1970."""
    kind: EventKind
    place: str
    """``topic:partition:offset`` of the record."""
    half: HalfPosition | None = None
    """Which half message it is about; None of what arrived on a real topic."""
    transaction_id: str = ""
    """As the record says; of one message of several with its number."""
    group: str = ""
    topic: str = ""
    """The real topic."""
    action: str = ""
    """What an op or a half says, or what became of a parked message."""
    source: str = ""
    """Who says so: producer, check, operator."""
    attempt: int = 0
    check_max: int = 0
    size: int = 0
    """Bytes of the value."""
    messages: int = 0
    """How many the half holds, when it holds several."""
    deliver_at_ms: int = 0
    reason: str = ""
    remark: str = ""
    who: str = ""
    """The operator, as the remark says."""
    refused: str = ""
    """``topic:partition:offset`` of the record that the job has not taken."""
    lane: str = ""
    """The lane that a half message names."""
    fact: str = ""
    """What an op says of the half message's lane: delivered, settled."""


def event_of(record: Any, topics: Topics) -> StoryEvent | None:
    """What a record of one of Checkback's topics says; None when it says nothing of a transaction.

    What is missing or cannot be read in it is empty: anybody may have written it.
    """
    headers = headers_of(record)
    event = StoryEvent(
        time_ms=record.timestamp,
        kind=EventKind.HALF,
        place=f"{record.topic}:{record.partition}:{record.offset}",
        half=half_in(headers),
        transaction_id=_text(headers, protocol.ID),
        group=_text(headers, protocol.GROUP),
        topic=_text(headers, protocol.TOPIC),
        action=_text(headers, protocol.ACTION),
        source=_text(headers, protocol.SOURCE),
        size=len(record.value or b""),
        reason=_text(headers, protocol.REASON),
    )
    if record.topic == topics.half:
        return _half(event, record, headers)
    if record.topic == topics.op:
        who, remark = remark_of(record.value, event.source)
        return event._replace(kind=EventKind.OP, who=who, remark=remark, size=0, fact=_fact(headers))
    if record.topic == topics.check:
        attempt, check_max = (_number(headers, name) for name in (protocol.ATTEMPT, protocol.CHECK_MAX))
        return event._replace(kind=EventKind.CHECK, attempt=attempt, check_max=check_max)
    if record.topic == topics.parked:
        return _parked(event, headers)
    if record.topic == topics.rejected:
        return _rejected(event, headers, topics)
    return _status(event, record) if record.topic == topics.status else None


def delivered(record: Any) -> StoryEvent:
    """What a record of a real topic says."""
    transaction_id = _text(headers_of(record), protocol.ID)
    place = f"{record.topic}:{record.partition}:{record.offset}"
    return StoryEvent(
        record.timestamp, EventKind.DELIVERED, place, transaction_id=transaction_id, topic=record.topic,
        size=len(record.value or b""),
    )  # fmt: skip


def headers_of(record: Any) -> dict[str, bytes]:
    """A record's headers by name; the first of a name counts."""
    return dict(reversed(record.headers))


def half_in(headers: dict[str, bytes]) -> HalfPosition | None:
    """Which half message a record's headers name; None when they name none."""
    try:
        return HalfPosition.parse(_text(headers, protocol.HALF))
    except ProtocolError:
        return None


def held_in(record: Any) -> HeldNote | None:
    """What the job noted in a half message that it wrote again; None of one that a producer wrote."""
    try:
        return HeldNote.parse(_text(headers_of(record), protocol.HELD))
    except ProtocolError:
        return None


def remark_of(value: bytes | None, source: str = protocol.Source.OPERATOR) -> tuple[str, str]:
    """Return an operator's name and remark from an op's value; Checkback's own tools write JSON with both.

    Ops of another ``source`` name no operator, whatever their value holds.
    """
    text = (value or b"").decode(errors="replace")
    if source != protocol.Source.OPERATOR:
        return "", text[:_MOST_CHARACTERS]
    try:
        said = read_object(text)
    except ValueError:
        said = {}
    if isinstance(said.get("who"), str) and isinstance(said.get("why"), str):
        return said["who"][:_MOST_CHARACTERS], said["why"][:_MOST_CHARACTERS]
    return "", text[:_MOST_CHARACTERS]


def said(event: StoryEvent) -> str:
    """The event in a few words, without who, when and where."""
    kind = event.kind
    if kind is EventKind.HALF:
        return _said_of_half(event)
    if kind is EventKind.OP:
        missed = event.action == protocol.Action.UNREACHABLE
        return f"{event.action} by {event.source}{', uses up no attempt' if missed else ''}{_said_of_lane(event)}"
    if kind in {EventKind.CHECK, EventKind.IN_DOUBT}:
        what = "check requested, for" if kind is EventKind.CHECK else "in doubt,"
        return f"{what} attempt {event.attempt} of {event.check_max}"
    if kind is EventKind.NOT_PARKED:
        return f"{kind}: {event.action}"
    if kind is EventKind.REFUSED:
        return f"{kind}, the {event.action} by {event.source} at {event.refused}"
    return f"{kind} to {event.topic}" if kind is EventKind.DELIVERED else str(kind)


def _said_of_lane(event: StoryEvent) -> str:
    if not event.fact:
        return ""
    if LaneFact(event.fact) is LaneFact.DELIVERED:
        return ": its lane delivered"
    return ": left to the job" if event.action == protocol.Action.COMMIT else ": its lane has not delivered it"


def _said_of_half(event: StoryEvent) -> str:
    several = f" with {event.messages} messages" if event.messages else ""
    decided = ", commit by itself" if event.action == HalfAction.COMMIT else ""
    later = f", not before {said_time(event.deliver_at_ms)}" if event.deliver_at_ms else ""
    size = "1 byte" if event.size == 1 else f"{event.size:,} bytes"
    lane = f", of lane {event.lane}" if event.lane else ""
    return f"half message{several} of {size} for {event.topic}{decided}{later}{lane}"


def _half(event: StoryEvent, record: Any, headers: dict[str, bytes]) -> StoryEvent:
    kind = EventKind.HALF
    if held_in(record) is not None:
        kind = EventKind.UNDELIVERABLE if event.action == HalfAction.PARK else EventKind.HELD
    return event._replace(
        kind=kind,
        half=HalfPosition(record.partition, record.offset),
        messages=_number(headers, protocol.MESSAGES),
        deliver_at_ms=_number(headers, protocol.DELIVER_AT),
        lane=_text(headers, protocol.LANE),
    )


def _fact(headers: dict[str, bytes]) -> str:
    return next((str(fact) for fact in LaneFact if fact.header[0] in headers), "")


def _parked(event: StoryEvent, headers: dict[str, bytes]) -> StoryEvent:
    became = _text(headers, protocol.ENDED)
    if became:
        return event._replace(kind=EventKind.NOT_PARKED, action=became)
    return event._replace(kind=EventKind.PARKED, messages=_number(headers, protocol.MESSAGES))


def _rejected(event: StoryEvent, headers: dict[str, bytes], topics: Topics) -> StoryEvent:
    came_from = _text(headers, protocol.FROM)
    topic, _, place = came_from.partition(":")
    if topic == topics.op:
        return event._replace(kind=EventKind.REFUSED, refused=came_from)
    half = half_in({protocol.HALF: place.encode()})
    return event._replace(kind=EventKind.REJECTED, half=half, refused=came_from)


def _status(event: StoryEvent, record: Any) -> StoryEvent | None:
    place = place_of(record.key)
    if place is None:
        return None
    row = row_of(place, record.value, record.timestamp)
    if row is None:
        return event._replace(kind=EventKind.NOT_IN_DOUBT, half=place, size=0) if record.value is None else None
    return event._replace(
        kind=EventKind.IN_DOUBT,
        half=place,
        transaction_id=row.transaction_id,
        group=row.group,
        topic=row.topic,
        attempt=row.attempt,
        check_max=row.check_max,
        size=0,
    )


def _text(headers: dict[str, bytes], name: str) -> str:
    return (headers.get(name) or b"").decode(errors="replace")[:_MOST_CHARACTERS]


def _number(headers: dict[str, bytes], name: str) -> int:
    written = headers.get(name) or b""
    return int(written) if written.isdigit() and len(written) <= protocol.MAX_MS_DIGITS else 0
