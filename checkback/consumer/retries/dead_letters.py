"""Dead letters as records: what each says of itself, and the mark that says that one was resent. No Kafka, no clock."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from checkback.consumer.listener import ReceivedMessage
from checkback.consumer.retry import (
    OwnTopics,
    SentBack,
    as_it_was,
    begun_anew,
    for_everybody,
)
from checkback.exceptions import OperatorError, ProtocolError
from checkback.wire.protocol import ID, HalfPosition, Topics, lawful_topic, refuse_own_topic
from checkback.wire.sent_back import REASON

RESENT = "checkback-resent"
"""Of a mark: ``partition:offset`` of the letter that was resent."""
RESENT_TO = "checkback-resent-to"
"""The topic that it was resent to."""
RESENT_BY = "checkback-resent-by"
"""Who has done so."""

_OF_A_MARK = frozenset({RESENT, RESENT_TO, RESENT_BY})
_MOST_BY_BYTES = 200
_MOST_NAMED = 10


class To(StrEnum):
    """Where a letter is resent to."""

    RETRY = "retry"
    """To its group alone, through the job, as if it had never been tried."""
    ORIGIN = "origin"
    """To the end of the topic that it came from: all who read that get it."""


class LetterPlace(NamedTuple):
    """Where a record lies in a topic of dead letters."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``partition:offset``; raises ProtocolError where it is something else."""
        return cls(*HalfPosition.parse(text))


class DeadLetter(NamedTuple):
    """A message that a group has given up on, without its content."""

    place: LetterPlace
    died_ms: int
    """When it came to lie there, in ms since 1970."""
    reason: str
    size: int
    """Bytes of key, value and headers, as it lies there."""
    origin: str = ""
    """``topic:partition:offset``; empty: it does not say, so nobody can resend it."""
    topic: str = ""
    """That of its origin."""
    origin_ms: int = 0
    """The time it had there."""
    tries: int = 0
    """How often it was tried."""
    first_id: str = ""
    """Its ``cb-id`` there; empty: it had none."""


class Mark(NamedTuple):
    """A record that says of a dead letter before it, on its partition, that it was resent."""

    letter: LetterPlace
    to: str
    """The topic."""
    by: str
    time_ms: int


def lies_there(record: Any) -> ReceivedMessage:
    """A client's record of a topic of dead letters."""
    place = (record.topic, record.partition, record.offset)
    return ReceivedMessage(*place, record.key, record.value, record.headers, record.timestamp)


def said_by(message: ReceivedMessage) -> DeadLetter | Mark:
    """What such a record is. One that only looks like a mark is a letter: none is hidden."""
    return _mark(message) or _letter(message)


def _mark(message: ReceivedMessage) -> Mark | None:
    said = message.header(RESENT)
    if said is None or {name for name, _ in message.headers} != _OF_A_MARK or message.value is not None:
        return None  # what the job writes there has an id, or a reason: whoever sent it has no right to hide a letter
    try:
        letter = LetterPlace.parse(said.decode())
    except (ProtocolError, UnicodeDecodeError):
        return None
    if letter.partition != message.partition or letter.offset >= message.offset:
        return None
    return Mark(letter, _text(message.header(RESENT_TO)), _text(message.header(RESENT_BY)), message.timestamp_ms)


def _letter(message: ReceivedMessage) -> DeadLetter:
    there = LetterPlace(message.partition, message.offset)
    headers = sum(len(name.encode(errors="replace")) + len(content or b"") for name, content in message.headers)
    size = len(message.key or b"") + len(message.value or b"") + headers
    found = DeadLetter(there, message.timestamp_ms, _text(message.header(REASON)), size)
    was = as_it_was(message)
    if was is message:
        return found
    origin = f"{was.topic}:{was.partition}:{was.offset}"
    return found._replace(
        origin=origin, topic=was.topic, origin_ms=was.timestamp_ms, tries=was.tries, first_id=_text(was.header(ID))
    )


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")


@dataclass
class Letters:
    """What was found in a topic of dead letters: the letters that were looked for, and all marks."""

    letters: dict[LetterPlace, DeadLetter] = field(default_factory=dict)
    marks: dict[LetterPlace, Mark] = field(default_factory=dict)
    """The last one of each letter."""
    ends: dict[int, int] = field(default_factory=dict)
    """By partition: the next offset to be read."""


class LetterFilter(NamedTuple):
    """Which letters are to be resent."""

    places: Collection[LetterPlace] = ()
    """None named: all."""
    topic: str | None = None
    """Only those that came from this topic."""
    again: bool = False
    """Also one that was resent before."""


class Choice(NamedTuple):
    """What is to be resent, and what is not."""

    letters: Sequence[DeadLetter]
    before: Sequence[tuple[DeadLetter, Mark]]
    """Resent before."""
    without_origin: Sequence[DeadLetter]
    """Nobody knows where these come from."""


def chosen(found: Letters, wanted: LetterFilter) -> Choice:
    """Which of the letters that were found are to be resent, in their order.

    Raises:
        OperatorError: one that is named is not there, came from another topic, or does not say from where.
    """
    missing = [str(place) for place in wanted.places if place not in found.letters]
    if missing:
        raise OperatorError(
            f"There is no dead letter at {_some(missing)}. 'checkback dlq list' has the places. Nothing was done."
        )
    letters = [one for place, one in sorted(found.letters.items()) if place in wanted.places or not wanted.places]
    other = [f"{one.place} (from {one.topic})" for one in letters if wanted.topic not in {None, one.topic}]
    if other and wanted.places:
        raise OperatorError(f"These do not come from {wanted.topic}: {_some(other)}. Nothing was done.")
    letters = [one for one in letters if wanted.topic in {None, one.topic}]
    before = [] if wanted.again else [(one, found.marks[one.place]) for one in letters if one.place in found.marks]
    passed_over = {one.place for one, _ in before}
    left = [one for one in letters if one.place not in passed_over]
    without_origin = [one for one in left if not one.origin]
    if without_origin and wanted.places:
        raise OperatorError(
            f"These do not say where they come from, so no consumer of Checkback has written them: "
            f"{_some([str(one.place) for one in without_origin])}. Nothing was done."
        )
    return Choice([one for one in left if one.origin], before, without_origin)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def parcels(letters: Iterable[DeadLetter], most: int, most_bytes: int) -> Iterator[list[DeadLetter]]:
    """Letters of one transaction each: as many as ``most``, of ``most_bytes`` together, and always one."""
    parcel: list[DeadLetter] = []
    size = 0
    for letter in letters:
        if parcel and (len(parcel) >= most or size + letter.size > most_bytes):
            yield parcel
            parcel, size = [], 0
        parcel.append(letter)
        size += letter.size
    if parcel:
        yield parcel


def resent(
    lies: ReceivedMessage, own: OwnTopics, topics: Topics, to: To, partitions: Mapping[str, Collection[int]]
) -> SentBack:
    """The record that brings a dead letter back.

    Args:
        lies: as it lies there.
        own: the group's topics.
        topics: Checkback's.
        to: to whom.
        partitions: of topics that letters came from, which are there.

    Raises:
        ProtocolError: it cannot be; the message says why, as an end of a sentence.
    """
    was = as_it_was(lies)
    if to is To.RETRY:
        return begun_anew(was, own)
    lawful_topic(was.topic)
    refuse_own_topic(was.topic, topics)
    if was.topic.startswith((topics.retry(""), topics.dead(""))):
        raise ProtocolError(f"{was.topic} is a consumer group's own topic")
    if was.partition not in partitions.get(was.topic, ()):
        raise ProtocolError(f"{was.topic} has no partition {was.partition} any more")
    return for_everybody(was)


def mark_of(place: LetterPlace, own: OwnTopics, to: str, by: str) -> SentBack:
    """The record that says that a letter was resent: it has a key and no value, and lies on the letter's partition."""
    spelled = str(place).encode()
    who = by.encode(errors="replace")[:_MOST_BY_BYTES].decode(errors="ignore").encode()
    headers = [(RESENT, spelled), (RESENT_TO, to.encode()), (RESENT_BY, who)]
    return SentBack(own.dead, spelled, None, headers, place.partition)
