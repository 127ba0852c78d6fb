"""The wire protocol's second half: what job, check service and check endpoints say to each other.

``docs/protocol.md`` specifies it; names of headers and topics are in :mod:`checkback.wire.protocol`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import read_object, text_of
from checkback.wire.lanes import is_lane
from checkback.wire.limits import MAX_HEADERS
from checkback.wire.message_json import from_base64, message_to_json, messages_from_json, pack, to_base64, unpack
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import (
    ASK_LIMIT_MS,
    ATTEMPT,
    CHECK_MAX,
    CUT,
    GROUP,
    HALF,
    ID,
    INGESTED_MS,
    KEY,
    LANE,
    LEFT_OUT,
    MAX_COUNT_DIGITS,
    MAX_GROUP_BYTES,
    MAX_MS_DIGITS,
    MAX_NUMBERED_ID_BYTES,
    MAX_TOPIC_BYTES,
    MESSAGES,
    RESERVED_PREFIX,
    TOPIC,
    VERSION,
    HalfPosition,
    Headers,
    Message,
    lawful_group,
)

MAX_BATCH = 100
"""Checks in one request over HTTP, at most."""
MAX_ANNOUNCEMENT_BYTES = 16 * 1024
"""Of an announcement's key and value; a longer one counts as one that cannot be read."""
_MOST_BRACKETS = 50
"""In an announcement: 2 are needed, and 16 KiB of them take 5 ms to read."""
REMARK_CHARACTERS = 512
"""So much of a remark is kept."""


@dataclass(frozen=True)
class CheckRequest:
    """One question to a producer group: what became of this transaction?"""

    transaction_id: str
    group: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    half: HalfPosition
    attempt: int
    check_max: int
    ingested_ms: int
    """When the half message was taken in by the query, in ms since 1970."""
    messages: tuple[Message, ...] = ()
    """All messages of the transaction, when it has several; key and value are None then."""
    left_out: int = 0
    """Bytes of the half message's value, when that is too large to come with the check: value is None then, and
    ``messages`` is empty. The transaction id says which transaction it is."""
    lane: str = ""
    """The lane that the half message names; empty: none."""
    ask_limit_ms: int = 0
    """The job asks about no half message that was written longer ago than this; 0: it does not say."""

    def head(self) -> Self:
        """The same question without the message: the transaction id says which it is."""
        size = len(self.value or b"") + sum(len(message.value or b"") for message in self.messages)
        return replace(self, key=None, value=None, headers=[], messages=(), left_out=self.left_out or max(size, 1))

    def to_json(self) -> dict[str, Any]:
        """Body of the check request over HTTP; bytes in base64."""
        return {
            "version": VERSION,
            "id": self.transaction_id,
            "group": self.group,
            "topic": self.topic,
            "key": to_base64(self.key),
            "payload": to_base64(self.value),
            "headers": [[name, to_base64(value)] for name, value in self.headers],
            "half": str(self.half),
            "attempt": self.attempt,
            "check_max": self.check_max,
            "ingested_ms": self.ingested_ms,
            **({"messages": [message_to_json(message) for message in self.messages]} if self.messages else {}),
            **({"left_out": self.left_out} if self.left_out else {}),
            **({"lane": self.lane} if self.lane else {}),
            **({"ask_limit_ms": self.ask_limit_ms} if self.ask_limit_ms else {}),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Self:
        """Read the body of a check request.

        Raises:
            ProtocolError: a field is missing or of a wrong type, or the version is a later one.
        """
        try:
            if body.get("version", VERSION) > VERSION:
                raise ProtocolError(f"This check request is of version {body['version']}, we speak {VERSION}.")
            if len(body["headers"]) > MAX_HEADERS:
                raise ProtocolError(f"A check request with more than {MAX_HEADERS:,} headers.")
            return cls(
                transaction_id=str(body["id"]),
                group=str(body["group"]),
                topic=str(body["topic"]),
                key=from_base64(body["key"]),
                value=from_base64(body["payload"]),
                headers=[(str(name), from_base64(value) or b"") for name, value in body["headers"]],
                half=HalfPosition.parse(body["half"]),
                attempt=int(body["attempt"]),
                check_max=int(body["check_max"]),
                ingested_ms=int(body["ingested_ms"]),
                messages=messages_from_json(body["messages"]) if "messages" in body else (),
                left_out=int(body.get("left_out", 0)),
                lane=str(body.get("lane", "")),
                ask_limit_ms=int(body.get("ask_limit_ms", 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"Not a check request: {error!r}.") from error

    def to_record(self) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
        """Key, value and headers of the record in ``cb.check``."""
        ours = [
            (ID, self.transaction_id.encode()),
            (GROUP, self.group.encode()),
            (TOPIC, self.topic.encode()),
            (HALF, str(self.half).encode()),
            (ATTEMPT, str(self.attempt).encode()),
            (CHECK_MAX, str(self.check_max).encode()),
            (INGESTED_MS, str(self.ingested_ms).encode()),
        ]
        if self.key is not None:
            ours.append((KEY, self.key))
        count, limit_ms = len(self.messages), self.ask_limit_ms
        optional = ((MESSAGES, count), (LEFT_OUT, self.left_out), (LANE, self.lane), (ASK_LIMIT_MS, limit_ms))
        ours += [(name, str(value).encode()) for name, value in optional if value]
        value = pack(self.messages) if self.messages else self.value
        return self.transaction_id.encode(), value, [*ours, *self.headers]

    @classmethod
    def from_record(cls, value: bytes | None, headers: Headers) -> Self:
        """Read a record of ``cb.check``.

        Raises:
            ProtocolError: a header is missing or unreadable.
        """
        ours = own_headers(headers)
        try:
            return cls(
                transaction_id=_name(ours[ID], MAX_NUMBERED_ID_BYTES),
                group=_name(ours[GROUP], MAX_GROUP_BYTES),
                topic=_name(ours[TOPIC], MAX_TOPIC_BYTES),
                key=ours.get(KEY),
                value=None if MESSAGES in ours else value,
                headers=[(name, content) for name, content in headers if not name.startswith(RESERVED_PREFIX)],
                half=HalfPosition.parse(ours[HALF].decode()),
                attempt=_digits(ours[ATTEMPT], MAX_COUNT_DIGITS),
                check_max=_digits(ours[CHECK_MAX], MAX_COUNT_DIGITS),
                ingested_ms=_digits(ours[INGESTED_MS], MAX_MS_DIGITS),
                messages=unpack(value) if MESSAGES in ours else (),
                left_out=_left_out(ours),
                lane=_lane(ours.get(LANE)),
                ask_limit_ms=_digits(ours.get(ASK_LIMIT_MS, b"0"), MAX_MS_DIGITS),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"Not a record of a check: {error!r:.200}.") from error


def _lane(content: bytes | None) -> str:
    if content is None:
        return ""
    lane = content.decode()
    if not is_lane(lane):
        raise ValueError(f"{LANE} is not a lane: {lane!r:.40}")
    return lane


def _left_out(ours: Mapping[str, bytes]) -> int:
    """Bytes of a value that is not there: one too large for a check, or for the topic, which then has the head only."""
    if LEFT_OUT in ours:
        return _digits(ours[LEFT_OUT], MAX_COUNT_DIGITS)
    return max(1, _digits(ours[CUT].split()[1], MAX_COUNT_DIGITS)) if CUT in ours else 0


@dataclass(frozen=True)
class Announcement:
    """A producer's check endpoint, as a record of ``cb.producers`` says it."""

    group: str
    instance: str
    url: str
    time_ms: int
    """The announcing process's clock, for people to read; nothing is decided by it."""
    batch: int = 1
    """How many checks it takes in one request; more than :data:`MAX_BATCH` are never sent."""
    topics: tuple[str, ...] | None = None
    """Real topics it answers for; None: all."""

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        body = {
            "group": self.group,
            "instance": self.instance,
            "url": self.url,
            "time_ms": self.time_ms,
            **({"batch": self.batch} if self.batch > 1 else {}),
            **({"topics": self.topics} if self.topics is not None else {}),
        }
        return announcement_key(self.group, self.instance), json.dumps(body).encode()

    @classmethod
    def from_record(cls, value: bytes, key: bytes = b"") -> Self:
        """Read a record's value.

        Raises:
            ProtocolError: too long, not JSON, a field is missing, or one is of a wrong type.
        """
        if len(key) + len(value) > MAX_ANNOUNCEMENT_BYTES:
            raise ProtocolError(f"An announcement of more than {MAX_ANNOUNCEMENT_BYTES:,} bytes.")
        if value.count(b"[") + value.count(b"{") > _MOST_BRACKETS:
            raise ProtocolError(f"An announcement with more than {_MOST_BRACKETS} of [ and {{.")
        try:
            body = read_object(value)
            group = text_of(body, "group", MAX_GROUP_BYTES)
            lawful_group(group)
            return cls(
                group=group,
                instance=str(body["instance"]),
                url=str(body["url"]),
                time_ms=int(body["time_ms"]),
                batch=_batch(body.get("batch", 1)),
                topics=_names(body.get("topics")),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ProtocolError(f"Not an announcement of a producer: {error!r:.200}.") from error


def _name(content: bytes, most_bytes: int) -> str:
    if not 0 < len(content) <= most_bytes:
        raise ValueError(f"a name must have 1 to {most_bytes} bytes: {content!r:.40}")
    return content.decode()


def _digits(content: bytes, most: int) -> int:
    if not content.isdigit() or len(content) > most:
        raise ValueError(f"no number of at most {most} digits: {content!r:.40}")
    return int(content)


def _batch(said: Any) -> int:
    if type(said) is not int or said < 1:
        raise ValueError(f"batch is not a number from 1: {said!r:.40}")
    return min(said, MAX_BATCH)


def _names(said: Any) -> tuple[str, ...] | None:
    if said is None:
        return None
    if not isinstance(said, list) or not all(isinstance(name, str) for name in said):
        raise TypeError("topics is not a list of names")
    return tuple(said)


def announcement_key(group: str, instance: str) -> bytes:
    """Key of a producer's announcement; a record with it and no value takes the announcement back."""
    return f"{group}/{instance}".encode()


SILENT = "no heartbeat for"
"""How the reason begins of an endpoint that has not been heard from for too long."""
