"""What is stored beside an offset: what is done behind it, and how often its reader has died there. No Kafka.

A text that fits into 4,096 bytes (Kafka's ``offset.metadata.max.bytes``): ``cb1;812;1;0;0;R...;``. Its parts, each with
a semicolon behind it: the version, the offset that it belongs to, three numbers of :class:`Endings`, and nothing or a
letter before base64: ``R`` for run lengths, ``B`` for a bitmap, the shorter of the two. Up to three more follow
(:class:`LastingFacts`). ``T``, beside the offsets of a group's retry topic, and eight letters for each topic that the
group has begun to read: Kafka forgets the offsets of a topic with the topic, and that they were there is known from
here. ``S``, and how many offsets the group has skipped in this partition. ``I``, and eight letters for the topic's id:
one that is made again with the same name has other messages at the same offsets.

A part without its semicolon was cut short, and what lies behind the last one is nobody's: a client may have read on in
its memory. More *done* than was stored would be messages lost.
"""

import hashlib
import string
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

MOST_BYTES = 4_095
"""Of the text; brokers take one more unless they are told otherwise, and confluent-kafka adds one."""

_VERSION = "cb1"
_PARTS = 6
_RUNS, _BITS, _TOPICS, _SKIPPED, _ID = "R", "B", "T", "S", "I"
_TOPIC_LETTERS = 8
_MOST_TOPICS = 200
_VARINT_BITS = 7
_MOST_VARINT_BYTES = 9
_MOST_DIGITS = 19
_MOST_OFFSET = 2**63 - 1
_MOST_ENDINGS = 1_000_000
"""Nobody has come to so many."""
_LETTERS = frozenset(string.ascii_letters + string.digits + "-_")


class Endings(NamedTuple):
    """How the readers of a partition have ended; see :mod:`checkback.consumer.offsets.poison_messages`."""

    running: bool = False
    """One reads it, or has ended without a word."""
    without_a_word: int = 0
    """How many have in a row."""
    alone: int = 0
    """How often the message at the stored offset was begun with nothing else under way, and did not end."""


class Stored(NamedTuple):
    """What a group has stored for a partition."""

    offset: int
    """The next offset to read."""
    metadata: str = ""


class LastingFacts(NamedTuple):
    """What is known of a partition wherever its offset goes."""

    skipped: int = 0
    """Offsets that the group has gone past without handling what was there, since it was last set by hand."""
    begun: frozenset[str] = frozenset()
    """:func:`letters` of the topics that the group has begun to read; of its retry topic only."""
    topic: str = ""
    """:func:`letters` of the topic's id; empty: it is not known."""


class Note(NamedTuple):
    """What :func:`decode` reads."""

    done: tuple[range, ...] = ()
    """Done behind the offset, in order."""
    endings: Endings = Endings()
    kept: LastingFacts = LastingFacts()


def encode(
    position: int,
    done: Sequence[range],
    endings: Endings = Endings(),  # noqa: B008  (a frozen one)
    most_bytes: int = MOST_BYTES,
    topics: Collection[str] | None = None,
    kept: LastingFacts = LastingFacts(),  # noqa: B008  (likewise)
) -> Stored:
    """Spell what is done behind a position.

    What has no room is left out, from its end: it is done again, perhaps. Nothing is claimed that is not done.

    Args:
        position: the next offset to read.
        done: ranges behind it, in order, none touching the next, as :meth:`OffsetWindow.done_ahead` gives them.
        endings: how readers have ended.
        most_bytes: of the whole text.
        topics: that the group has begun to read, beside those that were kept; of more than 200 nothing is said. None:
            nobody knows; an empty one says that it has begun none.
        kept: what else is known.
    """
    begun = kept.begun | {letters(topic) for topic in topics or ()}
    said = (begun or topics is not None) and len(begun) <= _MOST_TOPICS
    tail = f"{_TOPICS}{''.join(sorted(begun))};" if said else ""
    tail += f"{_SKIPPED}{min(kept.skipped, _MOST_OFFSET)};" if kept.skipped else ""
    tail += f"{_ID}{kept.topic};" if kept.topic else ""
    if not done and endings == Endings() and not tail:
        return Stored(position)
    head = ";".join((_VERSION, str(position), *(str(int(number)) for number in endings), ""))
    room = (most_bytes - len(head) - len(tail) - 2) * 3 // 4
    if not done or room <= 0:
        return Stored(position, f"{head};{tail}")
    runs, in_runs = _runs(position, done, room)
    bits, in_bits = _bits(position, done, room)
    shorter = (in_runs, -len(runs)) >= (in_bits, -len(bits))
    kind, content = (_RUNS, runs) if shorter else (_BITS, bits)
    return Stored(position, f"{head}{kind}{urlsafe_b64encode(content).rstrip(b'=').decode()};{tail}")


def has_begun(stored: Stored, topic: str) -> bool | None:
    """Whether the group has begun to read a topic, as what is stored for its retry topic says; None: it does not."""
    begun = _more(stored.metadata, _TOPICS)
    return None if begun is None else letters(topic) in _parted(begun)


def _parted(begun: str) -> frozenset[str]:
    parts = {begun[at : at + _TOPIC_LETTERS] for at in range(0, len(begun), _TOPIC_LETTERS)}
    return frozenset(part for part in parts if _is_letters(part))


def _is_letters(text: str) -> bool:
    return len(text) == _TOPIC_LETTERS and all(one in _LETTERS for one in text)


def _more(metadata: str, kind: str) -> str | None:
    """One of the parts that may follow, without its letter; None where it does not, or was cut short."""
    whole = metadata.split(";")[_PARTS:-1]
    return next((part[1:] for part in whole if part[:1] == kind), None)


def letters(topic: str) -> str:
    """Eight that stand for a topic's name or id, nearly always for no other."""
    return urlsafe_b64encode(hashlib.sha256(topic.encode()).digest()[: _TOPIC_LETTERS * 3 // 4]).decode()


def decode(stored: Stored) -> Note:
    """Read what :func:`encode` made. What anybody else has written, or written beside another offset, says nothing."""
    parts = stored.metadata.split(";", _PARTS)
    if len(parts) <= _PARTS or parts[0] != _VERSION:
        return Note()
    try:
        position, running, without_a_word, alone = (int(part) for part in parts[1:5])
        if position != stored.offset or not all(0 <= one <= _MOST_ENDINGS for one in (without_a_word, alone)):
            return Note()
        done = _read_ranges(position, parts[5]) if parts[5] else ()
    except ValueError:
        return Note()
    return Note(done, Endings(bool(running), without_a_word, alone), _kept(stored.metadata))


def _kept(metadata: str) -> LastingFacts:
    begun, topic = _more(metadata, _TOPICS) or "", _more(metadata, _ID) or ""
    return LastingFacts(_number(_more(metadata, _SKIPPED)), _parted(begun), topic if _is_letters(topic) else "")


def _number(text: str | None) -> int:
    """0 for what no offset can be."""
    lawful = text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return min(int(text), _MOST_OFFSET) if text and lawful else 0


def _runs(position: int, done: Sequence[range], room: int) -> tuple[bytes, int]:
    """Lengths of what is not done and of what is, in turns; and how many offsets of those that are done are in it."""
    written, said, at = bytearray(), 0, position
    for one in done:
        pair = _varint(one.start - at) + _varint(len(one))
        if len(written) + len(pair) > room:
            break
        written += pair
        said += len(one)
        at = one.stop
    return bytes(written), said


def _bits(position: int, done: Sequence[range], room: int) -> tuple[bytes, int]:
    """A bit for each offset from the position on, set when it is done; and how many are."""
    number, most = 0, room * 8
    for one in done:
        first, behind = one.start - position, min(one.stop - position, most)
        if first >= most:
            break
        number |= (1 << behind) - (1 << first)
    return number.to_bytes((number.bit_length() + 7) // 8, "little"), number.bit_count()


def _read_ranges(position: int, text: str) -> tuple[range, ...]:
    kind, content = text[:1], b64decode(text[1:] + "=" * (-len(text[1:]) % 4), altchars=b"-_", validate=True)
    if kind == _RUNS:
        return tuple(_read_runs(position, content))
    if kind == _BITS:
        return tuple(_read_bits(position, content))
    raise ValueError("neither run lengths nor a bitmap")


def _read_runs(position: int, content: bytes) -> Iterator[range]:
    lengths = list(_varints(content))
    if len(lengths) % 2:
        raise ValueError("a run without an end")
    at = position
    for waiting, done in zip(lengths[::2], lengths[1::2], strict=True):
        yield range(at + waiting, at + waiting + done)
        at += waiting + done


def _read_bits(position: int, content: bytes) -> Iterator[range]:
    number, at = int.from_bytes(content, "little"), position
    while number:
        waiting = (number & -number).bit_length() - 1
        number >>= waiting
        done = (~number & (number + 1)).bit_length() - 1
        number >>= done
        yield range(at + waiting, at + waiting + done)
        at += waiting + done


def _varint(number: int) -> bytes:
    written = bytearray()
    while number >> _VARINT_BITS:
        written.append(number & 127 | 128)
        number >>= _VARINT_BITS
    return bytes((*written, number))


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += _VARINT_BITS
        if shift > _MOST_VARINT_BYTES * _VARINT_BITS:
            raise ValueError("a number that no log has")
        if byte < 128:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("a number without an end")
