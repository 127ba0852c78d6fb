"""Records that a consumer sends back: to be tried again later, or as dead letters. No Kafka, no clock.

What must travel with a message travels in headers whose names begin with ``checkback-``, not ``cb-``: those the job
takes off when it delivers, and any job does, older ones too. These are an application's to it, so they arrive, byte for
byte. They are read in a group's own topics only; in any other they mean nothing.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from checkback.consumer.listener import ReceivedHeaders, ReceivedMessage
from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire import limits
from checkback.wire.protocol import (
    ACTION,
    DELIVER_AT,
    GROUP,
    ID,
    MAX_MS_DIGITS,
    RESERVED_PREFIX,
    TOPIC,
    HalfAction,
    Topics,
    lawful_group,
    lawful_name,
    lawful_topic,
)
from checkback.wire.sent_back import PAUSE, REASON

PREFIX = "checkback-"
ORIGIN = "checkback-origin"
"""``topic:partition:offset`` where it lay first."""
ORIGIN_TIME = "checkback-origin-time"
"""The time it had there, ms since 1970."""
TRIES = "checkback-tries"
"""How often it has been tried."""
FIRST_ID = "checkback-first-id"
"""The ``cb-id`` that it had there; absent when it had none."""
WITHOUT_VALUE = "checkback-without-value"
"""Numbers, with commas, of the application's headers that have no value, from 0: they travel with an empty one, since
kafka-python writes no header without; absent when there are none."""
KEPT = "checkback-kept-"
"""Before the name of a header that is the application's and begins as ours do, ``cb-`` or ``checkback-``."""

_MOST_REASON_BYTES = 1_000
_MOST_TRIES = 1_000_000
_MOST_PARTITION = 2**31 - 1
_MOST_OFFSET = 2**63 - 1
_MOST_MS = 2**63 - 1


class SentBack(NamedTuple):
    """A record that a consumer writes."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: ReceivedHeaders
    partition: int | None = None
    """None: any, the same for all records of a transaction."""


class OwnTopics(NamedTuple):
    """The topics that a consumer group writes to, and its retry topic, which it reads."""

    group: str
    later: str
    retry: str
    dead: str

    @classmethod
    def of(cls, topics: Topics, group: str) -> "OwnTopics":
        """Those of a group.

        Raises:
            ConfigurationError: topics cannot be named after it.
        """
        own = cls(group, topics.later, topics.retry(group), topics.dead(group))
        try:
            lawful_group(group)
            lawful_topic(own.retry)
        except ProtocolError as error:
            raise ConfigurationError(
                f"The consumer group {group!r:.80} has topics that are named after it, {own.retry!r:.80}: take a name "
                "of a-z A-Z 0-9 . _ -, of 200 characters at most."
            ) from error
        return own


def tried_again(message: ReceivedMessage, own: OwnTopics, now_ms: int, pause_ms: int = 0) -> SentBack:
    """A half message with its own decision: the job delivers it to the retry topic after the pause.

    ``now_ms`` is this process's clock; a job from before there was ``PAUSE`` goes by it.

    Raises:
        ProtocolError: the job would not take it.
    """
    deliver_at = (DELIVER_AT, str(min(now_ms + pause_ms, 10**MAX_MS_DIGITS - 1)).encode())
    return _half(message, own, message.tries + 1, [deliver_at, (PAUSE, str(pause_ms).encode())])


def begun_anew(message: ReceivedMessage, own: OwnTopics) -> SentBack:
    """Likewise, of a dead letter as it was: at once, and as if it had never been tried.

    Raises:
        ProtocolError: the job would not take it.
    """
    return _half(message, own, 0, [])


def for_everybody(message: ReceivedMessage) -> SentBack:
    """A dead letter as it was, for its first topic and partition: all who read them get it, with its ``cb-id``."""
    return SentBack(message.topic, message.key, message.value, message.headers, message.partition)


def _half(message: ReceivedMessage, own: OwnTopics, tries: int, when: Sequence[tuple[str, bytes | None]]) -> SentBack:
    headers: list[tuple[str, bytes | None]] = [
        (ID, os.urandom(16).hex().encode()),
        (GROUP, own.group.encode()),
        (TOPIC, own.retry.encode()),
        (ACTION, HalfAction.COMMIT.encode()),
        *when,
        *_travelling(message, tries),
    ]
    for name, _ in _its_own(message.headers)[1]:
        lawful_name(name)
    wrong = limits.too_large(message.value, message.key, headers)
    if wrong:
        raise ProtocolError(f"with the headers that travel with it, it is too large for {own.later} ({wrong})")
    return SentBack(own.later, message.key, message.value, headers)


def dead_letter(message: ReceivedMessage, own: OwnTopics, reason: str) -> SentBack:
    """What lies in the group's dead letters."""
    said = reason.encode(errors="replace")[:_MOST_REASON_BYTES].decode(errors="ignore").encode()
    return SentBack(own.dead, message.key, message.value, [*_travelling(message, message.tries + 1), (REASON, said)])


def as_it_was(message: ReceivedMessage) -> ReceivedMessage:
    """A record of a group's own topics as the message that it was first, with how often it has been tried.

    One that has no such headers, or others than we write, is as it lies there. Anybody may have written it.
    """
    ours = {name: content for name, content in reversed(message.headers) if name.startswith(PREFIX) and content}
    try:
        topic, partition, offset = ours[ORIGIN].decode().rsplit(":", 2)
        tries, time_ms = int(ours[TRIES]), int(ours[ORIGIN_TIME])
        origin = (topic, int(partition), int(offset))
        without_value = {int(number) for number in ours.get(WITHOUT_VALUE, b"").decode().split(",") if number}
    except (KeyError, ValueError):
        return message
    bounded = ((tries, _MOST_TRIES), (origin[1], _MOST_PARTITION), (origin[2], _MOST_OFFSET), (time_ms, _MOST_MS))
    if not all(0 <= number <= most for number, most in bounded):
        return message
    headers: list[tuple[str, bytes | None]] = [(ID, ours[FIRST_ID])] if FIRST_ID in ours else []
    travelled = [(name, content) for name, content in message.headers if _travels(name)]
    for number, (name, content) in enumerate(travelled):
        headers.append((name.removeprefix(KEPT), None if number in without_value else content))
    return ReceivedMessage(*origin, message.key, message.value, headers, time_ms, tries)


def _travelling(message: ReceivedMessage, tries: int) -> list[tuple[str, bytes | None]]:
    first_id, applications = _its_own(message.headers)
    without_value = ",".join(str(number) for number, (_, content) in enumerate(applications) if content is None)
    return [
        *((name, content or b"") for name, content in applications),
        (ORIGIN, f"{message.topic}:{message.partition}:{message.offset}".encode()),
        (ORIGIN_TIME, str(max(message.timestamp_ms, 0)).encode()),
        (TRIES, str(tries).encode()),
        *([] if first_id is None else [(FIRST_ID, first_id)]),
        *([(WITHOUT_VALUE, without_value.encode())] if without_value else []),
    ]


def _travels(name: str) -> bool:
    return name.startswith(KEPT) or not name.startswith((RESERVED_PREFIX, PREFIX))


def _its_own(headers: ReceivedHeaders) -> tuple[bytes | None, list[tuple[str, bytes | None]]]:
    """Its ``cb-id``, and all other headers under the names under which they travel."""
    first_id: bytes | None = None
    others: list[tuple[str, bytes | None]] = []
    for name, content in headers:
        if name == ID and content and first_id is None:
            first_id = content
        else:
            others.append((f"{KEPT}{name}" if name.startswith((RESERVED_PREFIX, PREFIX)) else name, content))
    return first_id, others
