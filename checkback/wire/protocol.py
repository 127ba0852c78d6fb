"""The wire protocol, version 1: every topic name, header name and limit, and how records are built.

The one place that knows them, but for sizes (``limits.py``); ``docs/protocol.md`` specifies them for other clients.
Headers are ``(str, bytes)`` pairs in the order in which they are written.
"""

import functools
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self, SupportsIndex

from checkback.exceptions import ProtocolError

VERSION = 1

ID = "cb-id"
GROUP = "cb-group"
TOPIC = "cb-topic"
PARTITION = "cb-partition"
IMMUNITY_MS = "cb-immunity-ms"
CHECK_MAX = "cb-check-max"
DELIVER_AT = "cb-deliver-at"
MESSAGES = "cb-messages"
HEADER_VERSION = "cb-version"
HALF = "cb-half"
ACTION = "cb-action"
SOURCE = "cb-source"
REASON, ANSWER = "cb-reason", "cb-answer"
KEY = "cb-key"
ATTEMPT = "cb-attempt"
INGESTED_MS = "cb-ingested-ms"
ASK_LIMIT_MS = "cb-ask-limit-ms"
FROM = "cb-from"
HELD = "cb-held"
ENDED = "cb-ended"
LANE = "cb-lane"
DELIVERED = "cb-delivered"
SETTLED = "cb-settled"
LEFT_OUT = "cb-left-out"
SIGNATURE = "cb-signature"
"""Behind all other headers: see :mod:`checkback.wire.signed_records`."""
CUT = "cb-cut"
"""Bytes of key, value and headers of a record that the job writes with its head only."""

UNDELIVERABLE = "committed, but not deliverable to"
"""How the reason of a parked record begins whose message is decided, and may be delivered again."""
CONTESTED = "contested: before it came, too many ops said of it under different ids that its lane has delivered it"
"""The reason of a parked half message of which only its real topic tells whether its lane has delivered it."""

COMMITTED_HELD = "committed, held"
COMMITTED_REFUSED = "committed, refused"
"""What became of a parked message that was committed, or delivered again, and that its topic does not take."""

RESERVED_PREFIX = "cb-"
MAX_ID_BYTES = 64
MAX_NUMBERED_ID_BYTES = MAX_ID_BYTES + 10
"""Of the id of one message of several: ``#`` and its number follow the transaction's."""
MAX_GROUP_BYTES = 255
MAX_TOPIC_BYTES = 249
MAX_COUNT_DIGITS = 9
MAX_MS_DIGITS = 15
MAX_OFFSET_DIGITS = 15
MAX_DIGITS = 19
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")

Headers = Sequence[tuple[str, bytes]]


class Action(StrEnum):
    """What an op says of its half message."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"
    RESUME = "resume"
    REDELIVER = "redeliver"


class HalfAction(StrEnum):
    """What a half message says of itself; most say nothing, and an op does."""

    COMMIT = "commit"
    """It is to be delivered, now or at its ``cb-deliver-at``: there is no local transaction."""
    PARK = "park"
    """The job's own: it was committed, and its topic does not take it."""


class Source(StrEnum):
    """Who wrote an op."""

    PRODUCER = "producer"
    CHECK = "check"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Topics:
    """Names of Checkback's own topics, all under one prefix (``cb.`` unless the settings say otherwise)."""

    prefix: str = "cb."

    @property
    def half(self) -> str:
        """Half messages, as producers write them."""
        return f"{self.prefix}half"

    @property
    def op(self) -> str:
        """Ops; as many partitions as :attr:`half`."""
        return f"{self.prefix}op"

    @property
    def check(self) -> str:
        """One record for each check to be made."""
        return f"{self.prefix}check"

    @property
    def parked(self) -> str:
        """Half messages given up on."""
        return f"{self.prefix}parked"

    @property
    def rejected(self) -> str:
        """Records that break the protocol, whole, with a reason."""
        return f"{self.prefix}rejected"

    @property
    def status(self) -> str:
        """Compacted: transactions that were checked and are still open."""
        return f"{self.prefix}status"

    @property
    def producers(self) -> str:
        """Compacted: check endpoints of producer groups."""
        return f"{self.prefix}producers"

    @property
    def progress(self) -> str:
        """Its consumer-group offsets say which batches are in; its records say nothing."""
        return f"{self.prefix}progress"

    @property
    def control(self) -> str:
        """Compacted: what consumers are told to do, and what they have done."""
        return f"{self.prefix}control"

    @property
    def later(self) -> str:
        """Half messages with their own decision, written in transactions; the job moves them to :attr:`half`."""
        return f"{self.prefix}later"

    @property
    def audit(self) -> str:
        """What was decided by hand, which access policy holds, what it refused: :mod:`checkback.wire.audit`."""
        return f"{self.prefix}audit"

    def retry(self, group: str) -> str:
        """Where the job delivers what a consumer group is to try again; not one of Checkback's own topics."""
        return f"{self.prefix}retry.{group}"

    def dead(self, group: str) -> str:
        """A consumer group's dead letters; likewise."""
        return f"{self.prefix}dlq.{group}"

    def all(self) -> tuple[str, ...]:
        """Every topic of Checkback's own."""
        return (
            *(self.half, self.op, self.check, self.parked, self.rejected, self.status, self.producers),
            *(self.progress, self.control, self.later, self.audit),
        )


class HalfPosition(NamedTuple):
    """Where a half message lies: its partition and offset in the half topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``partition:offset``.

        Raises:
            ProtocolError: not two non-negative decimal numbers.
        """
        partition, colon, offset = text.partition(":")
        if not (colon and partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise ProtocolError(f"{HALF} must be 'partition:offset' of the half message, not {text!r}.")
        if max(len(partition), len(offset)) > MAX_DIGITS:
            raise ProtocolError(f"{HALF} must have at most {MAX_DIGITS} digits in a number.")
        position = cls(int(partition), int(offset))
        if str(position) != text:
            raise ProtocolError(f"{HALF} must have no leading zeros, not {text!r}.")
        return position


class HeldNote(NamedTuple):
    """What the job notes in a half message that it writes again since its topic did not take it."""

    tries: int
    """How often that has happened."""
    since_ms: int
    """When it happened first; 0: not yet, after an operator has it delivered again."""
    origin: HalfPosition
    """Where the first half message lies."""

    def __str__(self) -> str:
        return f"{self.tries} {self.since_ms} {self.origin}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read three parts with blanks between them.

        Raises:
            ProtocolError: they are something else.
        """
        parts = text.split(" ")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
            raise ProtocolError(f"{HELD} must be 'tries since_ms partition:offset', not {text!r:.80}.")
        return cls(int(parts[0]), int(parts[1]), HalfPosition.parse(parts[2]))


@dataclass(frozen=True)
class TransactionOptions:
    """What a transaction may want otherwise than the job's settings say."""

    check_immunity_ms: int | None = None
    """No check for this many ms after the half message; without it the job's transaction timeout."""
    check_max: int | None = None
    """Checks without a verdict before the message is given up on; 0: not checked at all."""
    deliver_at_ms: int | None = None
    """Not delivered before this time, in ms since 1970 by the job's clock."""

    def headers(self) -> list[tuple[str, bytes]]:
        """The headers that say so.

        Raises:
            ProtocolError: a number that is negative or has too many digits.
        """
        numbers = (
            (IMMUNITY_MS, self.check_immunity_ms, MAX_MS_DIGITS),
            (CHECK_MAX, self.check_max, MAX_COUNT_DIGITS),
            (DELIVER_AT, self.deliver_at_ms, MAX_MS_DIGITS),
        )
        return [(name, _number(name, value, digits)) for name, value, digits in numbers if value is not None]


class Message(NamedTuple):
    """A message as consumers get it."""

    topic: str
    """The real topic."""
    value: bytes | None
    """None is a tombstone, and needs a key."""
    key: bytes | None = None
    headers: Headers = ()
    """The application's own, in this order; names must not begin with ``cb-``."""
    partition: int | None = None
    """Of the real topic; by default the key decides."""


def half_headers(
    transaction_id: str,
    group: str,
    topic: str,
    application: Headers = (),
    *,
    partition: int | None = None,
    options: TransactionOptions | None = None,
    messages: int | None = None,
) -> list[tuple[str, bytes]]:
    """Headers of a half message: ours first, in the order the query decodes fastest, then the application's.

    ``messages`` is how many the value holds, when :func:`checkback.wire.message_json.pack` made it.

    Raises:
        ProtocolError: an id, group or topic that is empty or too long, a number out of range, or an application
            header that uses the reserved prefix.
    """
    _bounded(ID, transaction_id, MAX_ID_BYTES)
    if application:
        lawful_names(application)
    ours = [(ID, transaction_id.encode()), _group_header(group), _topic_header(topic)]
    if partition is not None:
        ours.append((PARTITION, lawful_partition(partition)))
    if options is not None:
        ours += options.headers()
    if messages is not None:
        ours.append((MESSAGES, _number(MESSAGES, messages, MAX_COUNT_DIGITS)))
    return [*ours, *application]


def decided(headers: Headers) -> list[tuple[str, bytes]]:
    """What :func:`half_headers` made, of a half message that carries its own decision: to be delivered."""
    return [*headers[:3], (ACTION, HalfAction.COMMIT.encode()), *headers[3:]]


def op_headers(
    transaction_id: str, group: str, half: HalfPosition, action: Action, source: Source
) -> list[tuple[str, bytes]]:
    """Headers of an op, in the order the query decodes fastest."""
    return [
        (ID, transaction_id.encode()),
        _group_header(group),
        (HALF, b"%d:%d" % half),
        (ACTION, action.encode()),
        (SOURCE, source.encode()),
    ]


def _bounded(name: str, text: str, most: int) -> None:
    if not _is_text(text):
        raise ProtocolError(f"{name} must be text that UTF-8 can spell, not {text!r:.80}.")
    if not 0 < len(text.encode()) <= most:
        raise ProtocolError(f"{name} must have 1 to {most} bytes in UTF-8, got {len(text.encode())}.")


# Few groups and topics are sent to often: their checks are made once.
def lawful_group(group: str) -> None:
    """Raises ProtocolError where this cannot be a producer group."""
    if not isinstance(group, str) or "\0" in group:  # librdkafka takes what stands before it: another group's name
        raise ProtocolError(f"{GROUP} must be text without a zero byte, not {group!r:.80}.")
    _bounded(GROUP, group, MAX_GROUP_BYTES)


@functools.lru_cache(1024)
def _group_header(group: str) -> tuple[str, bytes]:
    lawful_group(group)
    return GROUP, group.encode()


@functools.lru_cache(1024)
def _topic_header(topic: str) -> tuple[str, bytes]:
    lawful_topic(topic)
    return TOPIC, topic.encode()


def _number(name: str, value: int, digits: int) -> bytes:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise ProtocolError(f"{name} must be a whole number, not {type(value).__name__}: {value!r:.40}.")
    value = operator.index(value)
    if not 0 <= value < 10**digits:
        raise ProtocolError(f"{name} must have 1 to {digits} digits and no sign.")
    return str(value).encode()


def lawful_partition(partition: int) -> bytes:
    """The number as a header has it; raises ProtocolError where a half message may not ask for it."""
    return _number(PARTITION, partition, MAX_COUNT_DIGITS)


def refuse_own_topic(topic: str, topics: Topics) -> None:
    """Raises ProtocolError where a topic is one of Checkback's or Kafka's own: no message goes there."""
    if topic in topics.all() or topic.startswith("__"):
        raise ProtocolError(f"{TOPIC} must not be one of Checkback's or Kafka's own topics, as {topic} is.")


def lawful_topic(topic: str) -> None:
    """Raises ProtocolError where a half message may not name it as its real topic."""
    _bounded(TOPIC, topic, MAX_TOPIC_BYTES)
    if not is_topic_name(topic):
        raise ProtocolError(f"{TOPIC} must be a name Kafka allows (a-z A-Z 0-9 . _ -), not {topic!r}.")


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    return bool(_TOPIC.fullmatch(name)) and name not in {".", ".."} and len(name) <= MAX_TOPIC_BYTES


def lawful_names(headers: Headers) -> None:
    """Raises ProtocolError where these may not be an application's headers."""
    for name, value in headers:
        lawful_name(name)
        if not isinstance(value, bytes):
            raise ProtocolError(f"Header {name!r} must have bytes as its value, not {type(value).__name__}.")


def lawful_name(name: str) -> None:
    """Raises ProtocolError where this may not be the name of an application's header."""
    if str.startswith(name, RESERVED_PREFIX):  # of str itself: a class of the application's may say anything
        raise ProtocolError(f"Header {name!r}: names beginning with {RESERVED_PREFIX!r} are Checkback's own.")
    # librdkafka ends a name at a zero byte, and its Python side does not survive a surrogate. Java reads U+FFFD
    # where bytes are not UTF-8.
    if "\0" in name or "\ufffd" in name or not _is_text(name):
        raise ProtocolError(f"Header {name!r}: a name must be UTF-8 without zero bytes and U+FFFD.")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
