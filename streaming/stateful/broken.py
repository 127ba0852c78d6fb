"""What a record's headers say, and what is wrong with one that breaks the protocol: the rules, one record at a time.

Of most records columns say as much: see :mod:`streaming.stateful.by_column`, which is held against these rules.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

from checkback.wire import limits, protocol
from checkback.wire.lanes import is_lane
from checkback.wire.own_headers import wrong_with_own
from state import Event
from streaming.batch.headers import Headers

OPTIONS = (protocol.PARTITION, protocol.IMMUNITY_MS, protocol.CHECK_MAX, protocol.DELIVER_AT, protocol.MESSAGES)
"""Optional headers of a half message, all of them numbers."""

ZERO_IN_NAME = "a header's name holds a zero byte"
REPLACED = "\ufffd"
"""What Java makes of bytes that are not UTF-8."""

_TOPIC = re.compile(rb"[a-zA-Z0-9._-]{1,249}")
_VERSION = re.compile(rb"[1-9][0-9]{0,8}")
_HELD = re.compile(rb"[0-9]{1,9} [0-9]{1,15} (0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,14})")
_PLACE = re.compile(rb"(0|[1-9][0-9]*):(0|[1-9][0-9]*)")
_YES = b"1"
_COUNT, _TIME = re.compile(rb"[0-9]{1,9}"), re.compile(rb"[0-9]{1,15}")
_NUMBERS = {
    protocol.PARTITION: (_COUNT, "cb-partition is not a number"),
    protocol.IMMUNITY_MS: (_TIME, "cb-immunity-ms is not a number of milliseconds"),
    protocol.CHECK_MAX: (_COUNT, "cb-check-max is not a number"),
    protocol.DELIVER_AT: (_TIME, "cb-deliver-at is not a number of milliseconds"),
    protocol.MESSAGES: (_COUNT, "cb-messages is not a number"),
}
_MOST_PARTITION, _MOST_OFFSET = (1 << 31) - 1, (1 << 63) - 1

OP_EVENTS = {
    (protocol.Action.COMMIT, protocol.Source.PRODUCER): Event.COMMIT,
    (protocol.Action.COMMIT, protocol.Source.CHECK): Event.CHECK_COMMIT,
    (protocol.Action.COMMIT, protocol.Source.OPERATOR): Event.OPERATOR_COMMIT,
    (protocol.Action.ROLLBACK, protocol.Source.PRODUCER): Event.ROLLBACK,
    (protocol.Action.ROLLBACK, protocol.Source.CHECK): Event.CHECK_ROLLBACK,
    (protocol.Action.ROLLBACK, protocol.Source.OPERATOR): Event.OPERATOR_ROLLBACK,
    (protocol.Action.UNKNOWN, protocol.Source.PRODUCER): Event.UNKNOWN,
    (protocol.Action.UNKNOWN, protocol.Source.CHECK): Event.CHECK_UNKNOWN,
    (protocol.Action.UNKNOWN, protocol.Source.OPERATOR): Event.UNKNOWN,
    (protocol.Action.UNREACHABLE, protocol.Source.CHECK): Event.CHECK_UNREACHABLE,
    (protocol.Action.RESUME, protocol.Source.OPERATOR): Event.RESUME,
    (protocol.Action.REDELIVER, protocol.Source.OPERATOR): Event.REDELIVER,
}
"""What an op says and who says it; other pairs break the protocol."""
_UNLAWFUL_PAIRS = {
    protocol.Action.UNREACHABLE: "only a check can find a producer unreachable",
    protocol.Action.RESUME: "only an operator can resume",
    protocol.Action.REDELIVER: "only an operator can have a message delivered again",
}

_HALF_EVENTS = {
    None: Event.HALF,
    protocol.HalfAction.COMMIT.encode(): Event.HALF_COMMIT,
    protocol.HalfAction.PARK.encode(): Event.HALF_PARK,
}

_Found = dict[str, bytes | None]


class WrittenHalf(NamedTuple):
    """What the headers of a half message say."""

    transaction_id: str
    group: str
    topic: str
    event: Event
    options: tuple[int, ...]
    """Numbers of ``OPTIONS``; -1 for one that is not given."""
    held: bool
    """Whether the job wrote it itself."""
    lane: str | None
    """The lane that it names."""


class WrittenOp(NamedTuple):
    """What the headers of an op say."""

    transaction_id: str
    group: str
    action: str
    source: str
    event: Event
    settled: int
    """1: the lane has not delivered it, and never will; else 0."""


def read_half(headers: Headers, own_topics: Collection[str]) -> WrittenHalf | str:
    """What a half message's headers say, or the first thing wrong with them."""
    found = dict(headers)
    # one message of several has a longer id when it is held
    wrong = _wrong_with_any(headers, found, longer_id=found.get(protocol.HELD) is not None)
    wrong = wrong or _wrong_with_half(found, own_topics)
    if wrong:
        return wrong
    options = tuple(-1 if (value := found.get(name)) is None else int(value) for name in OPTIONS)
    event = _HALF_EVENTS[found.get(protocol.ACTION)]
    held = found.get(protocol.HELD) is not None
    transaction_id, group, topic = _texts(found, protocol.ID, protocol.GROUP, protocol.TOPIC)
    lane = found.get(protocol.LANE)
    return WrittenHalf(transaction_id, group, topic, event, options, held, None if lane is None else lane.decode())


def read_op(headers: Headers, partition: int) -> WrittenOp | str:
    """What the headers of an op on this partition say, or the first thing wrong with them."""
    found = dict(headers)
    # and when it is delivered again
    again = found.get(protocol.ACTION) == protocol.Action.REDELIVER.encode()
    wrong = _wrong_with_any(headers, found, longer_id=again)
    wrong = wrong or _wrong_with_op(headers, found, partition)
    if wrong:
        return wrong
    transaction_id, group, action, source = _texts(found, protocol.ID, protocol.GROUP, protocol.ACTION, protocol.SOURCE)
    event = OP_EVENTS[protocol.Action(action), protocol.Source(source)]
    if found.get(protocol.DELIVERED) is not None:
        event = Event.DELIVERED
    settled = int(found.get(protocol.SETTLED) is not None)
    return WrittenOp(transaction_id, group, action, source, event, settled)


def wrong_text(name: str, content: bytes | None, most: int, said: int) -> str:
    """What is wrong with a header that must be there; empty: nothing."""
    if not content:
        return f"{name} is missing"
    if len(content) > most:
        return f"{name} is longer than {said} bytes"
    try:
        content.decode()
    except UnicodeDecodeError:
        return f"{name} is not UTF-8"
    return ""


def wrong_group(content: bytes | None) -> str:
    """As :func:`wrong_text`, of a producer group."""
    wrong = wrong_text(protocol.GROUP, content, protocol.MAX_GROUP_BYTES, protocol.MAX_GROUP_BYTES)
    return wrong or ("cb-group has a zero byte" if content and b"\0" in content else "")


def wrong_topic(content: bytes | None, own_topics: Collection[str]) -> str:
    """Likewise, of a real topic."""
    if content is None or not _TOPIC.fullmatch(content) or content in {b".", b".."}:
        return "cb-topic is missing or is not a valid topic name"
    if content.startswith(b"__") or content.decode() in own_topics:
        return "cb-topic is one of Checkback's or Kafka's own"
    return ""


def lawful_lane(content: bytes) -> bool:
    """Whether it names a lane, and not anybody's transactional id."""
    return content.isascii() and is_lane(content.decode())


def _wrong_with_any(headers: Headers, found: _Found, *, longer_id: bool) -> str:
    if "\0" in "".join(found):  # the sink's client would cut the name off there
        return ZERO_IN_NAME
    if len(found) != len(headers) and (repeated := wrong_with_own(headers)):
        return repeated
    most = protocol.MAX_NUMBERED_ID_BYTES if longer_id else protocol.MAX_ID_BYTES
    wrong = wrong_text(protocol.ID, found.get(protocol.ID), most, protocol.MAX_ID_BYTES)
    wrong = wrong or wrong_group(found.get(protocol.GROUP))
    if wrong:
        return wrong
    version = found.get(protocol.HEADER_VERSION)
    if version is not None and not _VERSION.fullmatch(version):
        return "cb-version is not a number"
    if version is not None and int(version) > protocol.VERSION:
        return "cb-version is later than this job's: upgrade the job"
    return ""


def _wrong_with_half(found: _Found, own_topics: Collection[str]) -> str:
    # nobody can deliver it as it is, nor read it again: librdkafka's client for Python fails on such a name
    if REPLACED in "".join(found):
        return "a header's name is not UTF-8, or has U+FFFD in it"
    return wrong_topic(found.get(protocol.TOPIC), own_topics) or _wrong_with_options(found)


def _wrong_with_options(found: _Found) -> str:
    for name, (number, reason) in _NUMBERS.items():
        value = found.get(name)
        if value is not None and not number.fullmatch(value):
            return reason
    several = found.get(protocol.MESSAGES) is not None
    if several and found.get(protocol.PARTITION) is not None:
        return "cb-partition is for one message, not for several"
    action, held = found.get(protocol.ACTION), found.get(protocol.HELD)
    if action not in _HALF_EVENTS:
        return "cb-action of a half message is not one we know"
    lane = found.get(protocol.LANE)
    if lane is not None and (not lawful_lane(lane) or action is not None):
        return "cb-lane is not 32 hex digits, or stands beside cb-action"
    if held is not None and (not _HELD.fullmatch(held) or action is None or several):
        return "cb-held is not what the job writes there"
    return ""


def _wrong_with_op(headers: Headers, found: _Found, partition: int) -> str:
    if sum(len(name.encode()) + len(value or b"") for name, value in headers) > limits.MAX_OP_HEADER_BYTES:
        return "the headers of an op are larger than 16 KiB together"
    wrong = _wrong_with_place(found.get(protocol.HALF), partition)
    wrong = wrong or _wrong_with_said(found.get(protocol.ACTION), found.get(protocol.SOURCE))
    return wrong or _wrong_with_lane(found)


def _wrong_with_lane(found: _Found) -> str:
    facts = {name: found[name] for name in (protocol.DELIVERED, protocol.SETTLED) if found.get(name) is not None}
    if any(value != _YES for value in facts.values()):
        return "cb-delivered or cb-settled is not 1"
    if len(facts) > 1:
        return "cb-delivered and cb-settled contradict each other"
    if protocol.DELIVERED in facts and found.get(protocol.ACTION) != protocol.Action.COMMIT.encode():
        return "cb-delivered is for cb-action commit"
    return ""


def _wrong_with_place(half: bytes | None, partition: int) -> str:
    place = _PLACE.fullmatch(half or b"")
    # what has more digits than a number of Java has is not read as one
    if place is None or max(map(len, place.groups())) > protocol.MAX_DIGITS:
        return "cb-half is not partition:offset"
    named = tuple(map(int, place.groups()))
    if named[0] > _MOST_PARTITION or named[1] > _MOST_OFFSET:
        return "cb-half is not partition:offset"
    # each would get a segment of its own, and random numbers would make batches that never end
    if named[1] >= 10**protocol.MAX_OFFSET_DIGITS:
        return "cb-half names an offset that no log has"
    return "" if named[0] == partition else "it lies on another partition than its cb-half"


def _wrong_with_said(action: bytes | None, source: bytes | None) -> str:
    actions = {one.encode(): one for one in protocol.Action}
    sources = {one.encode(): one for one in protocol.Source}
    if action not in actions:
        return "cb-action is not one we know"
    if source not in sources:
        return "cb-source is not one we know"
    said = actions[action]
    return "" if (said, sources[source]) in OP_EVENTS else _UNLAWFUL_PAIRS[said]


def _texts(found: _Found, *names: str) -> list[str]:
    return [(found[name] or b"").decode() for name in names]
